"""The history as updates, for `session/load`: what a client would have seen, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.records import (
    AssistantRecord,
    ClearRecord,
    CommandRecord,
    ToolResultRecord,
    TurnEndRecord,
    UserRecord,
)
from shared.updates import chunks
from worker import events as ev
from worker.steps import tool_uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from shared.records import Record
    from worker.agent_loop import AgentLoop
    from worker.tools.base import Tool, ToolInput

INTERRUPTED: Final = "\n[This turn was interrupted before it was done. Prompt again to go on.]\n"


def updates(
    records: Sequence[Record], tools: Mapping[str, Tool[ToolInput]], cwd: Path
) -> Iterator[dict[str, Any]]:
    """Standard updates for all records since the last clear, compacted ones too.

    A pure function of the records, so that a replay cut short by a worker's death can be taken up.
    """
    start = 0
    for i, record in enumerate(records):
        if isinstance(record, ClearRecord):
            start = i + 1
    results = {r.call_id: r for r in records if isinstance(r, ToolResultRecord)}
    for record in records[start:]:
        match record:
            case UserRecord():
                for block in record.blocks:
                    text = block["text"] if block["type"] == "text" else f"[{block['type']}]"
                    yield from chunks("user_message_chunk", text, record.turn_id)
            case CommandRecord():
                yield from chunks("user_message_chunk", record.text, record.turn_id)
                yield from chunks("agent_message_chunk", record.output, f"{record.turn_id}-output")
            case AssistantRecord():
                yield from _reply(record)
                for call in tool_uses(record):
                    yield call_update(call, results.get(call["id"]), tools, cwd)
            case TurnEndRecord(interrupted=True):
                yield from chunks("agent_message_chunk", INTERRUPTED, f"{record.turn_id}-end")


def _reply(record: AssistantRecord) -> Iterator[dict[str, Any]]:
    for block in record.blocks:
        if block.get("type") == "thinking" and block.get("thinking"):
            yield from chunks("agent_thought_chunk", block["thinking"], record.message_id)
        elif block.get("type") == "text" and block.get("text"):
            yield from chunks("agent_message_chunk", block["text"], record.message_id)


def call_update(
    call: dict[str, Any], result: ToolResultRecord | None, tools: Mapping[str, Tool[ToolInput]], cwd: Path
) -> dict[str, Any]:
    """One call as a single update, with its result if it has one."""
    tool = tools.get(call["name"])
    update: dict[str, Any] = {
        "sessionUpdate": "tool_call",
        "toolCallId": call["id"],
        "title": call["name"],
        "kind": tool.kind if tool else "other",
        "status": "pending",
        "rawInput": call["input"],
    }
    if tool is not None:
        update |= _described(tool, call["input"], cwd)
    if result is not None:
        update["status"] = "failed" if result.is_error else "completed"
        update["content"] = result.content
        update["rawOutput"] = result.raw_output
    return update


def _described(tool: Tool[ToolInput], raw_input: dict[str, Any], cwd: Path) -> dict[str, Any]:
    try:
        args = tool.Input.model_validate(raw_input)
    except ValueError:
        return {}
    described: dict[str, Any] = {"title": tool.title(args)}
    locations = tool.locations(args, cwd)
    return described | ({"locations": locations} if locations else {})


def later(
    before: Sequence[Record], now: Sequence[Record], tools: Mapping[str, Tool[ToolInput]], cwd: Path
) -> Iterator[dict[str, Any]]:
    """What was recorded while `before` was being replayed, the ends of its open calls first."""
    added = now[len(before) :]
    results = {record.call_id: record for record in added if isinstance(record, ToolResultRecord)}
    for record in before:
        if isinstance(record, AssistantRecord):
            for call in tool_uses(record):
                if call["id"] in results:
                    ended = call_update(call, results[call["id"]], tools, cwd)
                    yield {**ended, "sessionUpdate": "tool_call_update"}
    yield from updates(added, tools, cwd)


def streaming(loop: AgentLoop) -> Iterator[dict[str, Any]]:
    """What of the reply that is streaming was sent so far: it is in no record yet."""
    if loop.thoughts:
        yield from chunks("agent_thought_chunk", "".join(loop.thoughts), loop.message_id)
    if loop.partial:
        yield from chunks("agent_message_chunk", "".join(loop.partial), loop.message_id)


def shown_tail(record: AssistantRecord, shown: dict[str, int]) -> Iterator[ev.Event]:
    """What of a recorded reply the client was not sent, because its worker died with it in the link."""
    for kind, event, part in (
        ("agent_thought_chunk", ev.ThinkingDelta, "thinking"),
        ("agent_message_chunk", ev.TextDelta, "text"),
    ):
        whole = "".join(b[part] for b in record.blocks if b.get("type") == part and b.get(part))
        sent = shown.get(f"{record.message_id}:{kind}", 0)
        if len(whole) > sent:
            yield event(whole[sent:], record.message_id)
