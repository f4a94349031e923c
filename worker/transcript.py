"""A conversation as plain text of a bounded length, for a summary where itself is too long for the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from worker.context import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST: Final = 2000
"""Characters of one block."""


def transcript(messages: Sequence[dict[str, Any]], octets: int) -> str:
    """What was said, called and answered, in order and in about so many octets; the middle goes first."""
    said = "\n\n".join(
        shortened(text, _LONGEST)
        for message in messages
        for block in message["content"]
        if (text := _told(message["role"], block))
    )
    return shortened(said, octets if said.isascii() else octets // 4)


def _told(role: str, block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return f"{'User' if role == 'user' else 'You'}: {block['text']}"
        case "tool_use":
            return f"You called {block['name']}: {to_json(block['input']).decode()}"
        case "tool_result":
            return f"Result: {block['content']}"
        case "image" | "document":
            return f"User: ({block['type']})"
    return ""  # thinking is the model's own
