"""`session/update` lines: the standard's shape, and the reference's keys beside it.

In dialect `both` each update repeats `sessionUpdate` as `type`, a chunk's text as `text`, and a tool
call's `rawInput` and `rawOutput` as `raw_input` and `raw_output`; all clients that were tried accept
the pair. In dialect `acp` those are left out. An optional field that is absent is omitted, never null.
The answer of a prompt differs too: the standard has no `usage` at its root.
"""

from __future__ import annotations

from typing import Any, Literal

from shared.jsonrpc import notification_line

Dialect = Literal["both", "acp"]


def update_line(session_id: str, update: dict[str, Any], dialect: Dialect) -> bytes:
    """The line for one update (standard keys only in `update`)."""
    if dialect == "both":
        update = {**update, **_reference_keys(update)}
    return notification_line("session/update", {"sessionId": session_id, "update": update})


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


def chunk(
    kind: Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"],
    text: str,
    message_id: str | None = None,
) -> dict[str, Any]:
    """A piece of text of a message."""
    update: dict[str, Any] = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    if message_id is not None:
        update["messageId"] = message_id
    return update
