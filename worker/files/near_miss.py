"""The place in a text that a string which is not in it was most likely meant for. Pure, bounded in time."""

from __future__ import annotations

import difflib
import re
from typing import Final

_CANDIDATES: Final = 60
_COMPARED: Final = 40
"""Lines of two regions that are compared, and of each"""
_WIDTH: Final = 300
"""so many characters."""
_REGIONS: Final = 200
"""Regions that are compared but for spaces."""
_SHOWN_LINES: Final = 12
_SHOWN: Final = 1200
_LINES: Final = 3000
"""Lines looked through when no word of the string occurs at all."""
_SIMILAR: Final = 0.5
_CLOSE: Final = 0.6
"""Of their characters two lines share more, in any order."""


def nearest(text: str, old: str) -> str:
    """A sentence with the nearest region and its first difference, or "" where nothing comes near."""
    lines = text.split("\n")
    wanted = old.split("\n")
    place = _but_for_spaces(lines, wanted)
    if place is not None:
        return " It occurs but for spaces or line ends: " + _told(lines, wanted, place)
    best, best_ratio = None, _SIMILAR
    for place in _candidates(text, lines, wanted):
        ratio = _likeness(lines[place : place + len(wanted)], wanted)
        if ratio > best_ratio:
            best, best_ratio = place, ratio
    return "" if best is None else " The nearest text is this: " + _told(lines, wanted, best)


def _likeness(region: list[str], wanted: list[str]) -> float:
    """From 0 to 1: line by line, by the characters that they share. Linear, where difflib's ratio is not."""
    pairs = list(zip(region[:_COMPARED], wanted[:_COMPARED], strict=False))
    shared = sum(
        1.0 if a == b else difflib.SequenceMatcher(None, a[:_WIDTH], b[:_WIDTH], autojunk=False).quick_ratio()
        for a, b in pairs
    )
    return shared / min(len(wanted), _COMPARED)


def _but_for_spaces(lines: list[str], wanted: list[str]) -> int | None:
    """The first line of a region that equals the wanted one when runs of white space are alike."""
    words = [" ".join(line.split()) for line in wanted]
    anchor = max(range(len(words)), key=lambda i: len(words[i]))
    if not words[anchor]:
        return None
    parts = words[anchor].split(" ")
    last = len(words) - 1
    compared = 0
    for number, line in enumerate(lines):
        if parts[0] in line and parts[-1] in line and words[anchor] in " ".join(line.split()):
            compared += 1
            if compared > _REGIONS:
                return None
            place = number - anchor
            region = [" ".join(x.split()) for x in lines[max(place, 0) : place + len(words)]]
            if place < 0 or len(region) != len(words):
                continue
            if last == 0:
                if words[0] in region[0]:
                    return place
            elif (
                region[1:last] == words[1:last]
                and region[0].endswith(words[0])
                and region[last].startswith(words[last])
            ):
                return place
    return None


def _candidates(text: str, lines: list[str], wanted: list[str]) -> list[int]:
    """First lines of regions that share a rare long word with the wanted one."""
    anchor = max(range(len(wanted)), key=lambda i: len(wanted[i].strip()))
    words = sorted(set(re.findall(r"\w{2,}", wanted[anchor])), key=len, reverse=True)[:8]
    by_count = sorted((count, word) for word in words if (count := text.count(word)))
    places: dict[int, None] = {}
    for _, word in by_count[:3]:
        at, line = -1, 0
        while len(places) < _CANDIDATES and (following := text.find(word, at + 1)) >= 0:
            line += text.count("\n", max(at, 0), following)
            at = following
            places[max(line - anchor, 0)] = None
    if not places:
        # Not difflib's whole ratio: lines of few different characters take it seconds.
        matcher = difflib.SequenceMatcher(None, "", wanted[anchor][:_WIDTH], autojunk=False)
        best, best_ratio = None, _CLOSE
        for number, has in enumerate(lines[:_LINES]):
            matcher.set_seq1(has[:_WIDTH])
            if matcher.real_quick_ratio() > best_ratio and (ratio := matcher.quick_ratio()) > best_ratio:
                best, best_ratio = number, ratio
        if best is not None:
            places[max(best - anchor, 0)] = None
    return list(places)


def _told(lines: list[str], wanted: list[str], place: int) -> str:
    region = lines[place : place + len(wanted)]
    numbered = [f"{place + i + 1:>6}\t{line.rstrip()}" for i, line in enumerate(region[:_SHOWN_LINES])]
    shown = "\n".join(numbered)
    if len(region) > _SHOWN_LINES or len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + " …"
    return f"lines {place + 1}-{place + len(region)}.\n{shown}{_first_difference(region, wanted, place)}"


def _first_difference(region: list[str], wanted: list[str], place: int) -> str:
    for i, (has, asked) in enumerate(zip(region, wanted, strict=False)):
        # The first and the last line may go on beyond the string on either side.
        same = asked in has if i in (0, len(wanted) - 1) else has == asked
        if not same:
            return f"\nLine {place + i + 1} has {has[:200]!r} where old_string has {asked[:200]!r}."
    return ""
