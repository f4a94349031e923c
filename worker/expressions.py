"""A search's regular expression: how ripgrep is given it, and in which other way after a complaint. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_VERBOSE: Final = re.compile(r"\(\?[A-Za-z]*x")
_LINE_FEED: Final = re.compile(r"(\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^]\\])*\])|\\n|\n|(\\.)", re.DOTALL)
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
