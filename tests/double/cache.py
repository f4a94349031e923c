"""The service's prompt cache: which part of a prompt was seen before. Pure but for what it remembers.

A prompt is a row of units: each tool, each system block, each block of each message. A request writes
its prefix at every breakpoint, and reads the longest prefix that was written and lies at, or at most 20
units before, one of its own breakpoints. Tokens are characters by four.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

_LOOKBACK = 20
CHARACTERS_A_TOKEN = 4


class Counted(NamedTuple):
    """Input tokens of one request, as the API's usage splits them."""

    plain: int
    read: int
    written: int

    @property
    def total(self) -> int:
        """All input tokens."""
        return sum(self)


class PromptCache:
    """Remembers prefixes for as long as it lives."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def count(self, body: dict[str, Any]) -> Counted:
        """Account for one request and remember what it wrote."""
        digest = hashlib.sha256(body["model"].encode()).hexdigest()
        prefixes: list[tuple[str, int]] = []
        breakpoints: list[int] = []
        tokens = 0
        for index, (unit, marked) in enumerate(_units(body)):
            digest = hashlib.sha256((digest + unit).encode()).hexdigest()
            tokens += max(len(unit) // CHARACTERS_A_TOKEN, 1)
            prefixes.append((digest, tokens))
            if marked:
                breakpoints.append(index)
        read = 0
        for point in breakpoints:
            for prefix, size in prefixes[max(point - _LOOKBACK, 0) : point + 1]:
                if prefix in self._written:
                    read = max(read, size)
        self._written |= {prefixes[point][0] for point in breakpoints}
        cached = max(prefixes[breakpoints[-1]][1] if breakpoints else 0, read)
        return Counted(tokens - cached, read, cached - read)


def _units(body: dict[str, Any]) -> list[tuple[str, bool]]:
    units: list[tuple[str, bool]] = [_unit("tool", tool) for tool in body.get("tools") or []]
    system = body.get("system") or []
    units += [_unit("system", block) for block in _blocks(system)]
    for message in body["messages"]:
        units += [_unit(message["role"], block) for block in _blocks(message["content"])]
    return units


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unit(kind: str, block: dict[str, Any]) -> tuple[str, bool]:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    # Keys are not sorted: the service caches bytes, so a changed order is a miss there as well.
    return json.dumps([kind, bare]), "cache_control" in block
