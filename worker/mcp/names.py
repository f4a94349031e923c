"""Names that a model's API takes for what servers name as they like: `mcp__server__tool`. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST: Final = 64
"""Characters of a whole name; the shortest limit among the APIs that may be behind a gateway."""
_LONGEST_KEY: Final = 24
_PREFIX: Final = "mcp__"
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")


def server_keys(names: Sequence[str]) -> list[str]:
    """A key for each server, in order. No two are alike, and none holds `__`: whole names read one way."""
    keys: list[str] = []
    for name in names:
        key = re.sub("__+", "_", _ODD.sub("_", name)).strip("_")
        key = _cut(key, name, _LONGEST_KEY) or f"server-{_mark(name)}"
        numbered, number = key, 1
        while numbered in keys:
            number += 1
            numbered = f"{key}-{number}"
        keys.append(numbered)
    return keys


def full_names(key: str, own: Iterable[str]) -> dict[str, str]:
    """Whole names of a server's tools or prompts, with the name that the server itself uses.

    One that is named twice is there once. Of two that clean up to the same, the one that needed no
    cleaning keeps the name and the other gets a mark, whatever their order.
    """
    wanted = list(dict.fromkeys(own))
    found: dict[str, str] = {}
    for name in sorted(wanted, key=lambda name: (_clean(name) != name, name)):
        full = _full(key, _clean(name), name)
        if full in found:
            full = _full(key, f"{_clean(name)}_{_mark(name)}", name)
        found.setdefault(full, name)
    return found


def key_of(full: str) -> str | None:
    """The server's key in a whole name, or None for a name that is no server's."""
    key, separator, rest = full.removeprefix(_PREFIX).partition("__")
    return key if full.startswith(_PREFIX) and separator and rest else None


def _clean(name: str) -> str:
    return _ODD.sub("_", name) if re.search("[A-Za-z0-9]", name) else f"tool_{_mark(name)}"


def _full(key: str, cleaned: str, name: str) -> str:
    return f"{_PREFIX}{key}__{_cut(cleaned, name, LONGEST - len(_PREFIX) - len(key) - 2)}"


def _cut(text: str, name: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 9]}_{_mark(name)}"


def _mark(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
