"""Builders of records, and the Messages API's rules for a conversation, for the tests of the store."""

from __future__ import annotations

import itertools
from typing import Any

from shared.records import (
    AssistantRecord,
    GrantRecord,
    Record,
    ToolResultRecord,
    ToolStartRecord,
    TurnEndRecord,
    UserRecord,
)

MODEL = "claude-test"
_clock = itertools.count(1_700_000_000)
_messages = itertools.count(1)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str = "bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def thinking(words: str, signature: str = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": signature}


def user(turn: str, *blocks: dict[str, Any]) -> UserRecord:
    blocks = blocks or (text(f"do {turn}"),)
    return UserRecord(epoch=0, time=float(next(_clock)), turn_id=turn, blocks=list(blocks))


def reply(turn: str, *blocks: dict[str, Any], model: str = MODEL, **fields: Any) -> AssistantRecord:
    calls = any(block.get("type") == "tool_use" for block in blocks)
    made = {"message_id": f"m{next(_messages)}", "stop_reason": "tool_use" if calls else "end_turn", **fields}
    return AssistantRecord(
        epoch=0, time=float(next(_clock)), turn_id=turn, model=model, blocks=list(blocks), **made
    )


def start(turn: str, call_id: str, tool: str = "bash") -> ToolStartRecord:
    return ToolStartRecord(epoch=0, time=float(next(_clock)), turn_id=turn, call_id=call_id, tool=tool)


def result(turn: str, call_id: str, words: str = "done", **fields: Any) -> ToolResultRecord:
    return ToolResultRecord(
        epoch=0, time=float(next(_clock)), turn_id=turn, call_id=call_id, tool="bash", text=words, **fields
    )


def end(turn: str, stop_reason: str = "end_turn") -> TurnEndRecord:
    return TurnEndRecord(epoch=0, time=float(next(_clock)), turn_id=turn, stop_reason=stop_reason)


def grant(tool: str = "bash") -> GrantRecord:
    return GrantRecord(epoch=0, time=float(next(_clock)), tool=tool, allow=True)


def whole_turn(turn: str, *call_ids: str) -> list[Record]:
    """A turn in which all calls ran and the model answered."""
    ran = [record for one in call_ids for record in (start(turn, one), result(turn, one))]
    calls = reply(turn, text("let me see"), *(call(one, command="ls") for one in call_ids))
    return [user(turn), *([calls, *ran] if call_ids else []), reply(turn, text("there")), end(turn)]


def broken_rule(messages: list[dict[str, Any]]) -> str | None:
    """Which of the Messages API's rules a request's messages break, as a sentence, or None."""
    known: set[str] = set()
    asked: list[str] = []
    role_before = "assistant"
    for number, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == role_before:
            return f"message {number} is the {role}'s again (or the first is not the user's)"
        role_before = role
        if not content:
            return f"message {number} is empty"
        kinds = [block["type"] for block in content]
        for block in content:
            if block["type"] == "text" and not block["text"].strip():
                return f"message {number} has blank text"
            if block["type"] == "thinking" and not block.get("signature"):
                return f"message {number} has unsigned thinking"
        if role == "user":
            answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
            if answered != asked:
                return f"message {number} answers {answered}, asked were {asked}"
            if any(kind != "tool_result" for kind in kinds[: len(answered)]):
                return f"message {number} has something before its results"
            asked = []
        else:
            if kinds[-1] in ("thinking", "redacted_thinking"):
                return f"message {number} ends in thinking"
            calls = [block for block in content if block["type"] == "tool_use"]
            asked = [block["id"] for block in calls]
            if len(set(asked)) < len(asked) or known & set(asked):
                return f"message {number} has a call id that is not unique: {asked}"
            known.update(asked)
            if not all(isinstance(block["input"], dict) and block["name"] for block in calls):
                return f"message {number} has a call without name or with an input that is no object"
    return f"never answered: {asked}" if asked else None
