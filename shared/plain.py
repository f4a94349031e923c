"""Makes any value one that JSON carries and gives back. Knows nothing of what the value means."""

from __future__ import annotations

import math
from typing import Any, Final

from pydantic_core import to_json

_DEEPEST: Final = 100
"""Levels of nesting that are kept. pydantic's parser refuses a line from 200 on."""


def is_text(value: str) -> bool:
    """Whether UTF-8 can carry it: no lone surrogates."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_plain(value: Any) -> bool:
    """Whether JSON carries the value as it is. May be False for one that it does (text with "NaN" in it)."""
    if _is_simple(value):
        return True
    try:
        text = to_json(value)
    except ValueError:
        return False
    return b"NaN" not in text and b"Infinity" not in text


def _is_simple(value: Any) -> bool:
    """An object of ASCII text alone, as most calls' inputs are: told at a quarter of the cost."""
    if type(value) is not dict:
        return False
    for key, item in value.items():
        if type(item) is not str or not item.isascii() or type(key) is not str or not key.isascii():
            return False
    return True


def plain(value: Any, depth: int = 0) -> Any:
    """A copy that JSON carries: lone surrogates become U+FFFD, numbers that are none null.

    What is nested more than 100 levels deep becomes a short text that says so.
    """
    if isinstance(value, str):
        # Through UTF-16, so that two halves that make a character become that character.
        return (
            value
            if is_text(value)
            else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        )
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (dict, list, tuple)):
        if depth == _DEEPEST:
            return "(nested too deeply)"
        if isinstance(value, dict):
            return {plain(key): plain(item, depth + 1) for key, item in value.items()}
        return [plain(item, depth + 1) for item in value]
    return value
