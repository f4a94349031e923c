"""Replacing a string in a text, exactly where it was asked for, with the line ends that stand there. Pure."""

from __future__ import annotations

import bisect
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from worker.tools.base import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEWLINE: Final = re.compile(r"\r?\n")
_LISTED: Final = 10
"""Line numbers named of a string that occurs too often."""
_MOST: Final = 100_000
"""Places that are replaced in one edit."""
_LOOKED_AT: Final = 1_000_000
"""Lines at all places of the longest one; above this a search through the whole text is faster."""
_ALIGNED: Final = 1_000_000
"""Pairs of lines that are compared; difflib takes up to 0.5 s for so many, unless many lines are alike: then
it is to pass over them, as it does by itself."""


class NotFoundError(ToolError):
    """The text has no such place. Nearest ones are looked for by who has tried all encodings."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Characters `start` to `end` of the old text become `text`."""

    start: int
    end: int
    text: str


def replacements(text: str, old: str, new: str, *, everywhere: bool) -> list[Replacement]:
    """Where `old` occurs in `text` and what takes its place; one place, or with `everywhere` all.

    A line feed in `old` matches CRLF too. Line feeds in `new` become what stands at that place; a CRLF
    in `new` is kept. Raises NotFoundError when there is no place, and ToolError when there is more than one
    and not `everywhere`.
    """
    if not old:
        raise ToolError(
            "old_string is empty. Give the text to replace; to insert, give a line and repeat it in "
            "new_string; to write a whole file, use write_file."
        )
    if old == new:
        raise ToolError("old_string and new_string are the same, so there is nothing to change.")
    found = _occurrences(text, old)
    if not found:
        raise NotFoundError("old_string does not occur in the file, so nothing was changed.")
    if len(found) > _MOST:
        raise ToolError(
            f"old_string occurs more than {_MOST} times, at lines {_line_numbers(text, found)}, "
            "so nothing was changed. Give more of the text around the place, or use bash (sed, for example)."
        )
    if len(found) > 1 and not everywhere:
        raise ToolError(
            f"old_string occurs {len(found)} times, at lines {_line_numbers(text, found)}, "
            "so nothing was changed. Give more of the text around the place, or set replace_all."
        )
    if len(found) == 2 and found[1][0] < found[0][1]:
        # Of two that overlap the first, as everywhere else.
        del found[1]
    return [Replacement(s, e, fit_line_ends(text, s, e, new)) for s, e in found]


def spliced(text: str, changes: list[Replacement]) -> str:
    """The text after all changes, which are in order and apart."""
    parts: list[str] = []
    at = 0
    for change in changes:
        parts += (text[at : change.start], change.text)
        at = change.end
    parts.append(text[at:])
    return "".join(parts)


def _occurrences(text: str, old: str) -> list[tuple[int, int]]:
    """All places of `old`, apart and at most one more than `_MOST`; two that overlap are two if alone."""
    # One character is looked for at ten times the speed of two.
    if "\n" not in old or "\r\n" in old or "\r" not in text:
        return _literal(text, old)
    lines = old.split("\n")
    anchor = max(range(len(lines)), key=lambda i: len(lines[i]))
    if lines[anchor] and text.count(lines[anchor]) * len(lines[anchor]) * len(lines) <= _LOOKED_AT:
        return _apart(_around(text, lines, anchor))
    # Found in the text without carriage returns, and told back by how many were dropped before.
    dropped = [match.start() - i for i, match in enumerate(re.finditer("\r\n", text))]
    found = _literal(text.replace("\r\n", "\n"), old)
    return [(s + bisect.bisect_left(dropped, s), e + bisect.bisect_left(dropped, e)) for s, e in found]


def _around(text: str, lines: list[str], anchor: int) -> Iterator[tuple[int, int]]:
    """Where the lines stand, with either line end between them; the longest of them is looked for first."""
    at = text.find(lines[anchor])
    while at >= 0:
        start: int | None = at
        for line in reversed(lines[:anchor]):
            start = _before(text, start, line) if start is not None else None
        end = at + len(lines[anchor]) if start is not None else None
        for line in lines[anchor + 1 :]:
            end = _after(text, end, line) if end is not None else None
        if start is not None and end is not None:
            yield start, end
        at = text.find(lines[anchor], at + 1)


def _before(text: str, at: int, line: str) -> int | None:
    """Where `line` starts if it and a line end stand right before `at`."""
    if at == 0 or text[at - 1] != "\n":
        return None
    at -= 2 if text.startswith("\r", max(at - 2, 0)) else 1
    return at - len(line) if text.endswith(line, 0, at) and at >= len(line) else None


def _after(text: str, at: int, line: str) -> int | None:
    """Where `line` ends if a line end and it stand right at `at`."""
    at += 2 if text.startswith("\r\n", at) else 1 if text.startswith("\n", at) else len(text) + 1
    return at + len(line) if text.startswith(line, at) and at <= len(text) else None


def _apart(places: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places that do not overlap, as `_occurrences` gives them; they come in order."""
    found: list[tuple[int, int]] = []
    overlapping: tuple[int, int] | None = None
    for place in places:
        if not found or place[0] >= found[-1][1]:
            found.append(place)
            if len(found) > _MOST:
                break
        elif overlapping is None:
            overlapping = place
    return [*found, overlapping] if len(found) == 1 and overlapping else found


def _literal(text: str, old: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = text.find(old)
    while at >= 0 and len(found) <= _MOST:
        found.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    if len(found) == 1:
        start, end = found[0]
        overlapping = text.find(old, start + 1, end + len(old))
        if overlapping >= 0:
            found.append((overlapping, overlapping + len(old)))
    return found


def _line_numbers(text: str, found: list[tuple[int, int]]) -> str:
    numbers: list[int] = []
    line, at = 1, 0
    for start, _ in found[:_LISTED]:
        line += text.count("\n", at, start)
        at = start
        numbers.append(line)
    more = ", …" if len(found) > _LISTED else ""
    return ", ".join(str(number) for number in dict.fromkeys(numbers)) + more


def fit_line_ends(text: str, start: int, end: int, new: str) -> str:
    """`new` with the line ends that its place in `text` has.

    Where the replaced lines have both kinds, a line that stays keeps its own, and a new one takes that of
    the line that it replaces or follows.
    """
    if "\n" not in new:
        return new
    region = text[start:end]
    ends = _NEWLINE.findall(region)
    if not ends:
        style = _style_at(text, start, end)
        return new if style == "\n" else _with_ends(new, [style] * new.count("\n"))
    if len(set(ends)) == 1:
        return new if ends[0] == "\n" else _with_ends(new, [ends[0]] * new.count("\n"))
    return _with_ends(new, _aligned(_NEWLINE.split(region), ends, _NEWLINE.split(new)))


def _style_at(text: str, start: int, end: int) -> str:
    """The line end that follows a place, else the one before it."""
    at = text.find("\n", end)
    if at < 0:
        at = text.rfind("\n", 0, start)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _with_ends(new: str, ends: list[str]) -> str:
    lines = new.split("\n")
    parts: list[str] = []
    for i, line in enumerate(lines[:-1]):
        # A CRLF that the caller wrote is meant.
        parts += (line, "\n" if line.endswith("\r") else ends[i])
    return "".join(parts) + lines[-1]


def _aligned(old: list[str], ends: list[str], new: list[str]) -> list[str]:
    """A line end for each new line but the last, from the old lines that they stand for."""
    fitted = [ends[-1]] * (len(new) - 1)
    if len(old) * len(new) > _ALIGNED:
        return [ends[min(j, len(ends) - 1)] for j in range(len(fitted))]
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new).get_opcodes():
        for j in range(j1, min(j2, len(fitted))):
            i = i1 + (j - j1) if tag == "equal" else min(i1 + (j - j1), max(i2 - 1, i1 - 1, 0))
            fitted[j] = ends[min(i, len(ends) - 1)]
    return fitted
