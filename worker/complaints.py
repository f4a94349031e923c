"""What ripgrep says of a pattern, made readable: the reason, and where in the pattern. Pure."""

from __future__ import annotations

import re
from typing import Final

_WRAPPED: Final = "(?:"
"""ripgrep takes a pattern into a group of its own."""
_MARK: Final = re.compile(r"^ *\^[ ^]*$", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^ *\d+: ", re.MULTILINE)
"""What goes before a line of a pattern that has several."""
_SPAN: Final = re.compile(r"^on line (\d+) \(column (\d+)\) through ", re.MULTILINE)
_WHY: Final = re.compile(r"^error: (.*)", re.MULTILINE)
_ABOUT_PATTERN: Final = re.compile(r"rg: (?:regex |compiled regex |the literal )")


def explain(pattern: str, told: str) -> str:
    """ripgrep's complaint about a pattern, with the position in it. Empty for one about something else."""
    if not _ABOUT_PATTERN.match(told):
        return ""
    why, at = _WHY.search(told), _position(pattern, told)
    if why is None or at is None:
        return told.partition("\n")[0].removeprefix("rg: ")
    reason = why[1]
    if at < 0:
        # It blames its own group, for something that the pattern leaves open.
        at, reason = _left_open(pattern) or (0, reason)
    begun = pattern.rfind("\n", 0, at) + 1
    line = f"line {pattern.count(chr(10), 0, at) + 1}, " if "\n" in pattern else ""
    shown = pattern[begun:].partition("\n")[0]
    return f"{reason}, at {line}character {at - begun + 1}:\n    {shown}\n    {' ' * (at - begun)}^"


def _position(pattern: str, told: str) -> int | None:
    """The character of the pattern that ripgrep marks, or where the lines begin that it names."""
    mark = _MARK.search(told)
    span = _SPAN.search(told)
    if mark:
        numbers = list(_NUMBERED.finditer(told, 0, mark.start()))
        indent = len(numbers[-1][0]) if numbers else 4
        row, column = max(1, len(numbers)), mark[0].index("^") - indent
    elif span:
        row, column = int(span[1]), int(span[2]) - 1
    else:
        return None
    before = (_WRAPPED + pattern).split("\n")[: row - 1]
    return sum(len(line) + 1 for line in before) + column - len(_WRAPPED)


def _left_open(pattern: str) -> tuple[int, str] | None:
    """Where a pattern leaves a group or an escape open."""
    opened: list[int] = []
    bracket = -1
    skip = False
    for i, character in enumerate(pattern):
        if skip or character == "\\":
            skip = not skip
        elif bracket >= 0:
            # A bracket that comes first in a class is a member of it.
            if character == "]" and pattern[bracket + 1 : i].lstrip("^"):
                bracket = -1
        elif character == "[":
            bracket = i
        elif character == "(":
            opened.append(i)
        elif character == ")" and opened:
            opened.pop()
    if skip:
        return len(pattern) - 1, "a backslash with nothing after it"
    return (opened[-1], "unclosed group") if opened else None
