"""`session/update` lines: the standard's shape, and the reference's keys beside it.

In dialect `both` each update repeats `sessionUpdate` as `type`, a chunk's text as `text`, and a tool
call's `rawInput` and `rawOutput` as `raw_input` and `raw_output`; all clients that were tried accept
the pair. In dialect `acp` those are left out. An optional field that is absent is omitted, never null.
The answer of a prompt differs too: the standard has no `usage` at its root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic_core import from_json

from shared.jsonrpc import encode, notification_line

if TYPE_CHECKING:
    from collections.abc import Iterator

Dialect = Literal["both", "acp"]
ChunkKind = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]

LONGEST_LINE: Final = 9_500_000
"""Octets: some clients end a connection at a line of 10 MB."""
PIECE: Final = 500_000
"""Characters of a chunk. Sent twice in dialect `both`, and a character may be six octets as JSON."""
_UPDATE: Final = b'{"jsonrpc":"2.0","method":"session/update"'
_REFERENCE_KEYS: Final = ("type", "text", "raw_input", "raw_output")
_CUTS: Final = (200_000, 10_000, 300)
"""Characters that are left of each text in a message that is too long: the first that makes it fit."""


def update_line(session_id: str, update: dict[str, Any], dialect: Dialect) -> bytes:
    """The line for one update (standard keys only in `update`)."""
    if dialect == "both":
        update = {**update, **_reference_keys(update)}
    line = notification_line("session/update", {"sessionId": session_id, "update": update})
    if len(line) <= LONGEST_LINE:
        return line
    return notification_line("session/update", {"sessionId": session_id, "update": shortened(update)})


def bare_line(line: bytes) -> bytes:
    """A finished line of dialect `both` in the bare standard; only updates differ."""
    if not line.startswith(_UPDATE):
        return line
    params = from_json(line)["params"]
    kept = {key: value for key, value in params["update"].items() if key not in _REFERENCE_KEYS}
    return notification_line("session/update", {**params, "update": kept})


def bare_result(result: dict[str, Any]) -> dict[str, Any]:
    """An answer of dialect `both` in the bare standard."""
    if "stopReason" in result and "usage" in result:
        return {"stopReason": result["stopReason"], "_meta": {"usage": result["usage"]}}
    if "modes" in result and "models" in result:
        return {key: value for key, value in result.items() if key != "models"}
    return result


def shortened(message: Any) -> Any:
    """A copy whose longest texts are cut in their middle, so that it fits into a line. For people only."""
    for limit in _CUTS:
        short = _cut(message, limit)
        if len(encode(short)) < LONGEST_LINE:
            break
    return short


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, str) and len(value) > limit:
        half = limit // 2
        left_out = len(value) - 2 * half
        return f"{value[:half]}\n[{left_out} characters are not shown here]\n{value[-half:]}"
    if isinstance(value, dict):
        return {key: _cut(item, limit) for key, item in value.items()}
    return [_cut(item, limit) for item in value] if isinstance(value, list) else value


def _reference_keys(update: dict[str, Any]) -> dict[str, Any]:
    extra: dict[str, Any] = {"type": update["sessionUpdate"]}
    content = update.get("content")
    if isinstance(content, dict) and content.get("type") == "text":
        extra["text"] = content["text"]
    for standard, reference in (("rawInput", "raw_input"), ("rawOutput", "raw_output")):
        if standard in update:
            extra[reference] = update[standard]
    return extra


def prompt_result(stop_reason: str, usage: dict[str, int], dialect: Dialect) -> dict[str, Any]:
    """The `result` of a prompt. `usage` has `inputTokens`, `outputTokens` and `totalTokens` of the turn."""
    if dialect == "acp":
        return {"stopReason": stop_reason, "_meta": {"usage": usage}}
    return {"stopReason": stop_reason, "usage": usage}


def chunks(kind: ChunkKind, text: str, message_id: str | None = None) -> Iterator[dict[str, Any]]:
    """A text of whatever length in pieces that fit into a line each."""
    for start in range(0, len(text), PIECE):
        yield chunk(kind, text[start : start + PIECE], message_id)


def chunk(kind: ChunkKind, text: str, message_id: str | None = None) -> dict[str, Any]:
    """A piece of text of a message; see `chunks` for one that may be longer than `PIECE`."""
    update: dict[str, Any] = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    if message_id is not None:
        update["messageId"] = message_id
    return update
