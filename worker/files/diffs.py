"""A change of a text as ACP `diff` content and as numbers of lines. Pure.

Texts of up to `WHOLE` characters are shown whole. Of a larger one only the changed lines with some
around them are, each as a diff of its own: a client's line has 10 MB at most, and a person reads no more.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from worker.files.decoding import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.files.editing import Replacement

WHOLE: Final = 100_000
_OCTETS_A_CHARACTER: Final = 4
_CONTEXT: Final = 5
_REGIONS: Final = 20
_REGION: Final = 50_000
"""Characters of one side of a region."""
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_ALIGNED: Final = 1000
"""Lines of a region that are compared one by one for counting; difflib takes 0.1 s for so many alike."""
_COUNTED: Final = 500
"""Regions that are counted so."""


@dataclass(frozen=True, slots=True)
class Region:
    """Whole lines that changed, as slices of the old and the new text."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def regions_of(text: str, changes: list[Replacement]) -> list[Region]:
    """The changed lines of an edit; changes on the same line are one region."""
    regions: list[Region] = []
    shift = 0
    for change in changes:
        start = text.rfind("\n", 0, change.start) + 1
        # A change that ends behind a newline leaves the next line alone.
        whole = change.end > change.start and text[change.end - 1] == "\n" and change.text.endswith("\n")
        end = change.end if whole else _line_end(text, change.end)
        grown = len(change.text) - (change.end - change.start)
        if regions and start < regions[-1].old_end:
            last = regions.pop()
            end = max(end, last.old_end)
            regions.append(Region(last.old_start, end, last.new_start, end + shift + grown))
        else:
            regions.append(Region(start, end, start + shift, end + shift + grown))
        shift += grown
    return regions


def region_between(old: str, new: str) -> list[Region]:
    """The lines in which two texts differ, as one region; none for equal ones."""
    if old == new:
        return []
    prefix = _common(old, new)
    start = old.rfind("\n", 0, prefix) + 1
    suffix = _common(old[start:][::-1], new[start:][::-1])
    old_end, new_end = len(old) - suffix, len(new) - suffix
    if suffix and not (_starts_line(old, old_end) and _starts_line(new, new_end)):
        line = old.find("\n", old_end)
        kept = 0 if line < 0 else len(old) - line - 1
        old_end, new_end = len(old) - kept, len(new) - kept
    return [Region(start, old_end, start, new_end)]


def _starts_line(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _common(a: str, b: str) -> int:
    """The length of the common prefix: by halving, since slices compare at memory speed."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def count_changed(old: str, new: str, regions: list[Region]) -> tuple[int, int]:
    """Lines added and removed, as a diff counts them."""
    added = removed = 0
    for number, region in enumerate(regions):
        before = _LINE.findall(old[region.old_start : region.old_end])
        after = _LINE.findall(new[region.new_start : region.new_end])
        if number >= _COUNTED or not 2 < len(before) + len(after) <= _ALIGNED:
            removed, added = removed + len(before), added + len(after)
            continue
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if tag != "equal":
                removed, added = removed + i2 - i1, added + j2 - j1
    return added, removed


def diff_content(
    path: Path, old: str | None, new: str, regions: list[Region], read: Callable[[str], str]
) -> list[dict[str, Any]]:
    """ACP content for a change of an absolute path; `old` None is a new file, which has no `oldText`.

    `read` makes of whole lines of the texts what they are to a person.
    """
    if old is None:
        return [{"type": "diff", "path": str(path), "newText": _cut(read(new), WHOLE)}]
    if max(len(old), len(new)) <= _OCTETS_A_CHARACTER * WHOLE:
        whole_old, whole_new = read(old), read(new)
        if max(len(whole_old), len(whole_new)) <= WHOLE:
            return [_diff(path, shown(whole_old), shown(whole_new))]
    content = [
        _diff(
            path,
            _cut(read(_around(old, r.old_start, r.old_end)), _REGION),
            _cut(read(_around(new, r.new_start, r.new_end)), _REGION),
        )
        for r in regions[:_REGIONS]
    ]
    left = f"; {len(regions) - _REGIONS} more places are not shown" if len(regions) > _REGIONS else ""
    note = f"{path.name} is large: only the changed lines and {_CONTEXT} around them are shown{left}."
    return [*content, {"type": "content", "content": {"type": "text", "text": note}}]


def _diff(path: Path, old: str, new: str) -> dict[str, Any]:
    return {"type": "diff", "path": str(path), "oldText": old, "newText": new}


def _around(text: str, start: int, end: int) -> str:
    for _ in range(_CONTEXT):
        start = text.rfind("\n", 0, max(start - 1, 0)) + 1
        end = _line_end(text, end)
    return text[start:end]


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return shown(text)
    return shown(text[:limit]) + f"\n… [{len(text) - limit} more characters are not shown]"
