"""Regular expressions for the parts of a glob. Pure.

They never backtrack into an earlier `*`: a glob of many stars stays linear.
"""

from __future__ import annotations

import re


class GlobError(ValueError):
    """A pattern that cannot be read; `str()` says what is wrong with it, and where."""


def expression(parts: list[str]) -> str:
    """A regular expression for a relative path from its start. Raises GlobError."""
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
    return "".join((first, *middle, *last, _segment(name)))


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
            members, i = _class(part, i)
            pieces[-1] += members
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
