"""File patterns: what a glob names, as arguments for ripgrep and a check of the paths that it gives. Pure.

ripgrep's own `-g` shows ignored files too when they match, so the last part of a pattern goes to it as
a file type, which does not, and what a type cannot say is checked on the results. To ripgrep a character
is a byte, so it gets no `?` and no brackets.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Final

from worker.glob_expressions import GlobError, expression

TYPE: Final = "iacselection"
_ALTERNATIVES: Final = 200
MAGIC: Final = re.compile(r"[*?\[\]{}\\]")
"""A character that a backslash takes as it is."""
_CHARACTER: Final = re.compile(r"(\\.)|\?|\[[!^]?.[^\]]*\]", re.DOTALL)
"""What stands for one character; an escaped one is the first group."""
_CLOSING: Final = re.compile(r"(\\.)|\}", re.DOTALL)
"""A brace that closes none, as all that are left after expanding are; an escaped one is the first group."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The files below a folder that a pattern names."""

    arguments: tuple[str, ...]
    """For ripgrep: narrows the walk as far as it can."""
    path: re.Pattern[str] | None
    """Must match the whole path relative to the folder, where the arguments do not suffice."""
    hidden: bool
    """The pattern itself names hidden files or folders, by a part that starts with a dot."""


def split_base(pattern: str) -> tuple[str, str]:
    """The folder that a pattern starts with, as far as it is plain text, and the rest of it.

    The rest always holds the last part. A pattern of one part names files at any depth.
    """
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not MAGIC.search(parts[plain]):
        plain += 1
    base = "/".join(parts[:plain])
    if plain and not base:
        base = "/"
    rest = "/".join(parts[plain:])
    return base, rest if plain == 0 else f"./{rest}"


def select(pattern: str) -> Selection:
    """Read a pattern that is relative to a folder. Raises GlobError.

    `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, `**` for folders at any depth; a backslash takes the next
    character as it is. Without a slash it is the name of a file at any depth.
    """
    alternatives = [_parts(one) for one in _expand(pattern)]
    names = sorted({parts[-1] for parts in alternatives})
    widened = sorted({_literal(_CHARACTER.sub(lambda found: found[1] or "*", name)) for name in names})
    everything = names == ["*"]
    # A definition of a type cannot hold a colon.
    typed = "*" not in widened and not any(":" in name for name in widened)
    arguments: list[str] = []
    if typed:
        for name in widened:
            arguments += ["--type-add", f"{TYPE}:{name}"]
        arguments += ["--type", TYPE]
    if not any("**" in parts for parts in alternatives):
        arguments += ["--max-depth", str(max(map(len, alternatives)))]
    anywhere = all(parts[:-1] == ["**"] for parts in alternatives) or all(len(p) == 1 for p in alternatives)
    # Made in any case, as that finds what cannot be read.
    whole = "|".join(map(expression, alternatives))
    simple = anywhere and names == widened and (typed or everything)
    path = None if simple else re.compile(rf"(?:{whole})\Z")
    hidden = any(part.startswith(".") for parts in alternatives for part in parts)
    return Selection(tuple(arguments), path, hidden)


def exclude(pattern: str) -> Selection:
    """All files but those that a pattern names, or that are in a folder that it names. Raises GlobError.

    A pattern that ends in a slash names folders only.
    """
    alternatives = [(_parts(one.rstrip("/")), one.endswith("/")) for one in _expand(pattern)]
    # In any case, as that finds what cannot be read.
    named = "|".join(expression(parts) + ("/" if folder else r"(?:/|\Z)") for parts, folder in alternatives)
    if any(not found[1] for found in _CHARACTER.finditer(pattern)):
        return Selection((), re.compile(f"(?!{named})"), hidden=False)
    # Only a glob that excludes leaves ripgrep's other rules in force, and it spares the walk. It is given as
    # it was read here: ripgrep takes `./a`, `a//b` and braces whose readings differ in slashes otherwise.
    given = {_literal("/".join(("", *parts))) + "/" * folder for parts, folder in alternatives}
    return Selection(tuple(f"--glob=!{one}" for one in sorted(given)), None, hidden=False)


def _literal(pattern: str) -> str:
    """ripgrep refuses a brace that closes none, which here is a character as any other."""
    return _CLOSING.sub(lambda found: found[1] or r"\}", pattern)


def _parts(pattern: str) -> list[str]:
    if not pattern:
        raise GlobError("one of its readings has no name; leave out the empty alternative")
    if "/" not in pattern:
        return ["**", pattern] if pattern != "**" else ["**", "*"]
    parts = [part for part in pattern.split("/")[:-1] if part not in ("", ".")]
    last = pattern.rpartition("/")[2]
    if last in ("", "**"):
        parts += ["**", "*"]
    else:
        parts.append(last)
    if ".." in parts:
        raise GlobError("`..` after a wildcard is not supported; give the folder to start from as `path`")
    return [part for i, part in enumerate(parts) if not (part == "**" and parts[i - 1 : i] == ["**"])]


def _expand(pattern: str) -> list[str]:
    """All readings of a pattern with braces."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        current = pending.pop()
        found = _braces(current)
        if found is None:
            done.append(current)
        else:
            start, commas, end = found
            cuts = [start, *commas, end]
            inner = [current[a + 1 : b] for a, b in itertools.pairwise(cuts)]
            pending += [current[:start] + one + current[end + 1 :] for one in inner]
        if len(done) + len(pending) > _ALTERNATIVES:
            raise GlobError(f"its braces give more than {_ALTERNATIVES} patterns")
    return done


def _braces(pattern: str) -> tuple[int, list[int], int] | None:
    """The first outermost pair of braces: where it opens, its commas, where it closes."""
    start, depth = -1, 0
    commas: list[int] = []
    skip = False
    for i, character in enumerate(pattern):
        if skip or character == "\\":
            skip = not skip
        elif character == "{":
            if depth == 0:
                start, commas = i, []
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                return start, commas, i
        elif character == "," and depth == 1:
            commas.append(i)
    if depth:
        raise GlobError(
            f"the brace at character {start + 1} is not closed; write \\{{ for one that is meant as it is"
        )
    return None
