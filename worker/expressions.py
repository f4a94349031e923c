"""A search's regular expression: how ripgrep is given it, and a complaint about it made readable. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_WRAPPED: Final = "(?:"
"""ripgrep takes a pattern into a group of its own."""
_MARK: Final = re.compile(r"^ *\^[ ^]*$", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^ *\d+: ", re.MULTILINE)
"""What goes before a line of a pattern that has several."""
_SPAN: Final = re.compile(r"^on line (\d+) \(column (\d+)\) through ", re.MULTILINE)
_WHY: Final = re.compile(r"^error: (.*)", re.MULTILINE)
_ABOUT_PATTERN: Final = re.compile(r"rg: (?:regex |compiled regex |the literal )")
_VERBOSE: Final = re.compile(r"\(\?[A-Za-z]*x")
_LINE_FEED: Final = re.compile(r"(\[\^?\]?(?:\\.|[^]\\])*\])|\\n|\n|(\\.)", re.DOTALL)
"""A line feed; a class or another escape is a group, to be passed over."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A pattern as ripgrep is given it."""

    text: str
    flags: tuple[str, ...]


def first_try(pattern: str) -> Expression:
    """A pattern as it is, but that `$` stands before CRLF too."""
    # No command line holds a NUL; in an expression it may be written out.
    return Expression(pattern.replace("\0", r"\x00"), ("--crlf",) if "$" in pattern else ())


def next_try(tried: Expression, told: str) -> Expression | None:
    """What to give ripgrep after its complaint about a pattern; None where the pattern is at fault."""
    if "--crlf" in tried.flags and told.startswith(r'rg: the literal "\r"'):
        # It names the carriage return itself.
        return replace(tried, flags=())
    if "--multiline" not in tried.flags and told.startswith(r'rg: the literal "\n"'):
        return Expression(_of_any_line_ends(tried.text), (*tried.flags, "--multiline"))
    if "error: unclosed group" in told and _VERBOSE.search(tried.text) and "#" in tried.text.split("\n")[-1]:
        # The comment takes in the end of ripgrep's own group.
        return replace(tried, text=tried.text + "\n")
    return None


def _of_any_line_ends(text: str) -> str:
    """With `\\n` for CRLF too, as it is for `edit_file`, unless the pattern itself tells them apart."""
    if r"\r" in text or _VERBOSE.search(text):
        return text
    return _LINE_FEED.sub(lambda found: found[0] if found[1] or found[2] else r"(?:\r?\n)", text)


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
