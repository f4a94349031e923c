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
    tried = Expression(pattern.replace("\0", r"\x00"), ("--crlf",) if "$" in pattern else ())
    return _over_lines(tried) if _leaves_out_a_line_feed(pattern) else tried


def next_try(tried: Expression, told: str) -> Expression | None:
    """What to give ripgrep after its complaint about a pattern; None where the pattern is at fault."""
    if "--crlf" in tried.flags and told.startswith(r'rg: the literal "\r"'):
        # It names the carriage return itself.
        return replace(tried, flags=())
    if "--multiline" not in tried.flags and told.startswith(r'rg: the literal "\n"'):
        return _over_lines(tried)
    if "error: unclosed group" in told and _VERBOSE.search(tried.text) and "#" in tried.text.split("\n")[-1]:
        # The comment takes in the end of ripgrep's own group.
        return replace(tried, text=tried.text + "\n")
    return None


def _leaves_out_a_line_feed(pattern: str) -> bool:
    """As one of several, `[;\\n]` or `(;|\\n)`, ripgrep passes over it and says nothing."""
    return any(
        "|" in pattern if found[0] == r"\n" else (found[1] or "[^")[:2] != "[^" and r"\n" in found[1]
        for found in _LINE_FEED.finditer(pattern)
    )


def _over_lines(tried: Expression) -> Expression:
    """With `\\n` for CRLF too, as it is for `edit_file`, unless the pattern itself tells them apart."""
    text = tried.text
    if r"\r" not in text and not _VERBOSE.search(text):
        text = _LINE_FEED.sub(lambda found: found[0] if found[1] or found[2] else r"(?:\r?\n)", text)
    return Expression(text, (*tried.flags, "--multiline"))
