"""A search's regular expression: how ripgrep is given it, and in which other way after a complaint. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_VERBOSE: Final = re.compile(r"\(\?[A-Za-z]*x")
_LINE_FEED: Final = r"(?:\\n|\\x0[Aa]|\\[xuU]\{0*[Aa]\}|\n)"
"""In any spelling."""
_CLASS: Final = r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^]\\])*\]"
_PIECE: Final = re.compile(rf"(?P<line_feed>{_LINE_FEED})|(?P<class>{_CLASS})|\\.", re.DOTALL)
_WITH_LINE_FEED: Final = re.compile(rf"\[(?!\^)(?:\\(?!n|x|u|U).|[^\\])*?{_LINE_FEED}", re.DOTALL)
_ANYTHING: Final = re.compile(r"\[(?:\\s\\S|\\S\\s|\\d\\D|\\D\\d|\\w\\W|\\W\\w)\]")
_DOT_IS_ALL: Final = re.compile(r"(?<!\\)\(\?[A-Za-z]*s[A-Za-z]*(?:-[A-Za-z]+)?[:)]")


@dataclass(frozen=True, slots=True)
class Expression:
    """A pattern as ripgrep is given it."""

    text: str
    flags: tuple[str, ...]


def first_try(pattern: str) -> Expression:
    """How a pattern is tried: `$` stands before CRLF too, and what reaches over lines is searched so."""
    # No command line holds a NUL; in an expression it may be written out.
    tried = Expression(pattern.replace("\0", r"\x00"), ("--crlf",) if "$" in pattern else ())
    return _over_lines(tried) if _reaches_over_lines(pattern) else tried


def next_try(tried: Expression, told: str) -> Expression | None:
    """What to give ripgrep after its complaint about a pattern; None where the pattern is at fault."""
    if "--crlf" in tried.flags and told.startswith(r'rg: the literal "\r"'):
        # It names the carriage return itself.
        return replace(tried, flags=tuple(flag for flag in tried.flags if flag != "--crlf"))
    if "--multiline" not in tried.flags and told.startswith(r'rg: the literal "\n"'):
        return _over_lines(tried)
    if "error: unclosed group" in told and _VERBOSE.search(tried.text) and "#" in tried.text.split("\n")[-1]:
        # The comment takes in the end of ripgrep's own group.
        return replace(tried, text=tried.text + "\n")
    return None


def _reaches_over_lines(pattern: str) -> bool:
    """It does, but without `--multiline` ripgrep would find less by it and say nothing.

    Of a line feed that stands alone it says that it needs it; so that is left to `next_try`.
    """
    if _DOT_IS_ALL.search(pattern) or _ANYTHING.search(pattern):
        return True
    pieces = list(_PIECE.finditer(pattern))
    if "|" in pattern and any(piece["line_feed"] for piece in pieces):
        return True
    return any(_WITH_LINE_FEED.match(piece["class"]) for piece in pieces if piece["class"])


def _over_lines(tried: Expression) -> Expression:
    """With `\\n` for CRLF too, as it is for `edit_file`, unless the pattern itself tells them apart."""
    text = tried.text
    if r"\r" not in text and not _VERBOSE.search(text):
        text = _PIECE.sub(lambda piece: r"(?:\r?\n)" if piece["line_feed"] else piece[0], text)
    return Expression(text, (*tried.flags, "--multiline"))
