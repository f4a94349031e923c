"""What a server may send, bounded before the SDK looks at it: lines of a stdout, and results. Pure.

The SDK checks each block of a result in Python: a million small ones took seconds of the loop.
"""

from __future__ import annotations

from typing import Any, Final

LARGEST_MESSAGE: Final = 128 * 2**20
"""Octets of one message. A text of 50 MB comes twice, as content and as structured content."""
MOST_NOISE: Final = 64 * 2**20
"""Octets without an answer to a request, after which a server counts as broken."""
_LEAST: Final = 512
"""Octets that a line counts for at the least: each takes about 20 µs."""
_MOST_ITEMS: Final = 500
"""Tools, prompts or blocks of one result."""


class Noise(Exception):
    """A server writes more than it may; `str()` says what, as a phrase that follows its name."""


class MessageLines:
    """Cuts a server's stdout into lines that may be messages, and counts all else as noise."""

    def __init__(self) -> None:
        self.noise = 0
        """Octets since the last answer to a request."""
        self.first_noise = b""
        """The beginning of the first line that was no message."""
        self._begun: list[bytes] = []
        self._begun_size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that have become whole. Raises Noise."""
        *ended, rest = data.split(b"\n")
        lines: list[bytes] = []
        for piece in ended:
            line = b"".join((*self._begun, piece)).strip() if self._begun else piece.strip()
            self._begun, self._begun_size = [], 0
            if line[:1] == b"{":
                lines.append(line)
            elif line:
                self.count(line)
        if rest:
            self._begun.append(rest)
            self._begun_size += len(rest)
        if self._begun_size > LARGEST_MESSAGE:
            raise Noise(f"wrote a line of more than {LARGEST_MESSAGE >> 20} MiB")
        return lines

    def count(self, line: bytes) -> None:
        """`line` was nothing that was asked for. Raises Noise."""
        self.first_noise = self.first_noise or line[:200]
        self.noise += max(len(line) + 1, _LEAST)
        if self.noise > MOST_NOISE:
            lines = MOST_NOISE // _LEAST
            raise Noise(f"floods its stdout: {MOST_NOISE >> 20} MiB or {lines} lines that nobody asked for")

    def answered(self) -> None:
        """A line was the answer to a request."""
        self.noise = 0


def bounded(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what is too much to check; of tools and prompts what can be used of each."""
    found = dict(result)
    for key in ("tools", "prompts", "content", "messages"):
        items = found.get(key)
        if not isinstance(items, list):
            continue
        left_out = len(items) - _MOST_ITEMS
        items = items[:_MOST_ITEMS]
        if left_out > 0 and key == "content":
            items.append({"type": "text", "text": f"[{left_out} more blocks are not shown]"})
        if key in ("tools", "prompts"):
            named = [item for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)]
            items = [_tool(item) if key == "tools" else _prompt(item) for item in named]
        found[key] = items
    return found


def _texts(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: item[key] for key in keys if isinstance(item.get(key), str)}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """One malformed field would cost the SDK's check the whole list. Output schemas are not used."""
    hints = tool.get("annotations")
    usable = _texts(tool, "name", "title", "description")
    usable["inputSchema"] = _schema(tool.get("inputSchema"))
    if isinstance(hints, dict):
        kept = {name: hint for name, hint in hints.items() if isinstance(hint, bool)}
        usable["annotations"] = kept | _texts(hints, "title")
    return usable


def _schema(schema: Any) -> dict[str, Any]:
    """An input schema in the outline that MCP wants; what is in it is judged by `schemas`."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return {"type": "object"}
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    named = isinstance(properties, dict) and all(isinstance(p, dict | bool) for p in properties.values())
    listed = isinstance(required, list) and all(isinstance(name, str) for name in required)
    if not named or not listed or not isinstance(schema.get("$schema", ""), str):
        return {"type": "object"}
    return {**schema, "type": "object"}


def _prompt(prompt: dict[str, Any]) -> dict[str, Any]:
    arguments = prompt.get("arguments")
    kept = [
        _texts(argument, "name", "description") | {"required": argument.get("required") is True}
        for argument in (arguments if isinstance(arguments, list) else [])
        if isinstance(argument, dict) and isinstance(argument.get("name"), str)
    ]
    return _texts(prompt, "name", "title", "description") | {"arguments": kept}
