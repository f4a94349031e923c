"""Turns a `ModelRequest` into the body of a request to `/v1/messages`. Pure; copies what it changes.

The prefix that the service caches must be the same bytes in each request, so nothing here depends on
time or chance, and the caller's messages are never touched: cache breakpoints go into copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.json import Encoder

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.catalog import ModelEntry
    from worker.models.base import ModelRequest, ThinkingLevel

_CACHED: Final = {"type": "ephemeral"}
_BUDGETS: Final = {"low": 4_096, "medium": 12_288, "high": 32_768}
_LEAST_BUDGET: Final = 1_024
_encoder: Final = Encoder()


def arguments(request: ModelRequest, entry: ModelEntry) -> dict[str, Any]:
    """The request's body, without `stream`."""
    max_tokens = min(request.max_tokens, entry.max_output)
    made: dict[str, Any] = {
        "model": request.model.removeprefix(f"{entry.provider}/"),
        "max_tokens": max_tokens,
        "messages": _with_breakpoints(request.messages),
    }
    if request.system:
        made["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
    if request.tools:
        made["tools"] = [*request.tools[:-1], {**request.tools[-1], "cache_control": _CACHED}]
    return made | _thinking(request.thinking, entry, max_tokens)


def encoded(body: dict[str, Any]) -> bytes:
    """The body as JSON.

    Left to the SDK the event loop would stand still: of 2,000 messages it makes copies for 15 ms and JSON
    for 6. Here it is below 1.
    """
    return _encoder.encode(body)


def without_thinking(messages: list[dict[str, Any]], refused: Collection[str]) -> list[dict[str, Any]]:
    """The messages less thinking with a `refused` signature; a message that was nothing else is left out."""
    kept: list[dict[str, Any]] = []
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant" and isinstance(content, list):
            content = [block for block in content if _signature(block) not in refused]
            if not content:
                continue
            message = {**message, "content": content}
        kept.append(message)
    return kept


def signatures(messages: list[dict[str, Any]]) -> set[str]:
    """What tells each thinking block of the messages from others."""
    blocks = (
        block for message in messages if isinstance(message["content"], list) for block in message["content"]
    )
    return {signature for block in blocks if (signature := _signature(block)) is not None}


def _signature(block: dict[str, Any]) -> str | None:
    return block.get({"thinking": "signature", "redacted_thinking": "data"}.get(block["type"], ""))


def _with_breakpoints(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks the newest user message, and the one before it.

    The second mark is where the request before put its first one: the service looks back only 20
    blocks from a mark for what it has cached, and a reply may hold more calls than that.
    """
    marked = list(messages)
    users = [index for index in range(len(marked)) if marked[index]["role"] == "user"]
    for index in users[-2:]:
        content = marked[index]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if blocks:
            last = {**blocks[-1], "cache_control": _CACHED}
            marked[index] = {**marked[index], "content": [*blocks[:-1], last]}
    return marked


def _thinking(level: ThinkingLevel, entry: ModelEntry, max_tokens: int) -> dict[str, Any]:
    """`display` asks for the thinking's text, which newer models leave out unless asked. They also put
    what they say between tool calls there, so without it the user would see nothing for minutes."""
    if not entry.thinking:
        return {}
    if entry.thinking_form == "budget":
        # Thinking counts towards max_tokens: half of it at most, so that a reply fits beside it.
        budget = 0 if level == "off" else min(_BUDGETS[level], max_tokens // 2)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}
    if level == "off" and entry.thinking_off == "omit":
        return {}
    if level == "off" and entry.thinking_off != "never":
        return {"thinking": {"type": entry.thinking_off}}
    return {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low" if level == "off" else level},
    }
