"""File patterns: what a glob names, as arguments for ripgrep and a check of the paths that it gives. Pure.

ripgrep's own `-g` shows ignored files too when they match, so the last part of a pattern goes to it as
a file type, which does not, and what a type cannot say is checked on the results. The expressions
here never backtrack into an earlier `*`: a glob of many stars stays linear.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Final

TYPE: Final = "iacselection"
_ALTERNATIVES: Final = 200
_MAGIC: Final = re.compile(r"[*?\[\]{}\\]")


class GlobError(ValueError):
    """A pattern that cannot be read; `str()` says what is wrong with it, and where."""


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
    while plain < len(parts) - 1 and not _MAGIC.search(parts[plain]):
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
    if "" in names:
        raise GlobError("one of its readings has no name; leave out the empty alternative")
    everything = names == ["*"]
    # A definition of a type cannot hold a colon.
    typed = "*" not in names and not any(":" in name for name in names)
    arguments: list[str] = []
    if typed:
        for name in names:
            arguments += ["--type-add", f"{TYPE}:{name}"]
        arguments += ["--type", TYPE]
    if not any("**" in parts for parts in alternatives):
        arguments += ["--max-depth", str(max(map(len, alternatives)))]
    anywhere = all(parts[:-1] == ["**"] for parts in alternatives) or all(len(p) == 1 for p in alternatives)
    simple = anywhere and (typed or everything)
    path = None if simple else re.compile("|".join(_expression(parts) for parts in alternatives))
    hidden = any(part.startswith(".") for parts in alternatives for part in parts)
    return Selection(tuple(arguments), path, hidden)


def _parts(pattern: str) -> list[str]:
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


def _expression(parts: list[str]) -> str:
    """A regular expression for a whole relative path."""
    *folders, name = parts
    runs: list[list[str]] = [[]]
    for folder in folders:
        if folder == "**":
            runs.append([])
        else:
            runs[-1].append(_segment(folder) + "/")
    first, *floating = ["".join(run) for run in runs]
    # What follows a `**` is taken where it comes first, for good: a later `**` reaches all that is left.
    middle = [f"(?>(?:[^/]+/)*?{run})" for run in floating[:-1]]
    last = [f"(?:[^/]+/)*{floating[-1]}"] if floating else []
    return "".join((first, *middle, *last, _segment(name), r"\Z"))


def _segment(part: str) -> str:
    """An expression for one name; each `*` but the last takes the shortest text that fits, for good."""
    pieces = [""]
    i = 0
    while i < len(part):
        character = part[i]
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            expression, i = _class(part, i)
            pieces[-1] += expression
        else:
            if character == "\\":
                i += 1
                if i == len(part):
                    raise GlobError("it ends in a single backslash")
            pieces[-1] += re.escape(part[i])
        i += 1
    first, *others = pieces
    if not others:
        return first
    return "".join((first, *(f"(?>[^/]*?{piece})" for piece in others[:-1]), "[^/]*", others[-1]))


def _class(part: str, start: int) -> tuple[str, int]:
    """The expression for a bracket that opens at `start`, and where it closes."""
    i = start + 1
    negated = part[i : i + 1] in ("!", "^")
    i += negated
    # A bracket that comes first is a member, as everywhere.
    end = part.find("]", i + 1)
    if end < 0 or i >= len(part):
        raise GlobError(f"the bracket at character {start + 1} of {part!r} is not closed")
    members = re.sub(r"([\\\[\]^&|~])", r"\\\1", part[i:end])
    try:
        re.compile(f"[{members}]")
    except re.error as e:
        raise GlobError(f"{part[start : end + 1]} is not a range of characters") from e
    return f"(?!/)[{'^' if negated else ''}{members}]", end
