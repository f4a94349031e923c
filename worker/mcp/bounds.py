"""What a server may send, bounded before the SDK looks at it: lines of a stdout, and results. Pure.

The SDK checks each block of a result in Python: a million small ones took seconds of the loop.
"""

from __future__ import annotations

from typing import Any, Final

LARGEST_MESSAGE: Final = 64 * 2**20
"""Octets of one message."""
MOST_NOISE: Final = 64 * 2**20
"""Octets without an answer to a request, after which a server counts as broken."""
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
        self.noise += len(line) + 1
        if self.noise > MOST_NOISE:
            raise Noise(f"wrote {MOST_NOISE >> 20} MiB to its stdout that nobody had asked for")

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
    schema, hints = tool.get("inputSchema"), tool.get("annotations")
    usable = _texts(tool, "name", "title", "description")
    usable["inputSchema"] = schema if isinstance(schema, dict) else {"type": "object"}
    if isinstance(hints, dict):
        kept = {name: hint for name, hint in hints.items() if isinstance(hint, bool)}
        usable["annotations"] = kept | _texts(hints, "title")
    return usable


def _prompt(prompt: dict[str, Any]) -> dict[str, Any]:
    arguments = prompt.get("arguments")
    kept = [
        _texts(argument, "name", "description") | {"required": argument.get("required") is True}
        for argument in (arguments if isinstance(arguments, list) else [])
        if isinstance(argument, dict) and isinstance(argument.get("name"), str)
    ]
    return _texts(prompt, "name", "title", "description") | {"arguments": kept}
