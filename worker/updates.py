"""Internal events as ACP updates: the table of the protocol reference, one function a row."""

from __future__ import annotations

from typing import Any

from worker import events as ev


def to_update(event: ev.Event) -> dict[str, Any]:
    """The standard's update for an event. Text and thinking deltas are the publisher's, which merges them."""
    match event:
        case ev.ToolUseStart():
            return _tool_use_start(event)
        case ev.ToolProgress():
            update: dict[str, Any] = {
                "sessionUpdate": "tool_call_update",
                "toolCallId": event.call_id,
                "status": "in_progress",
            }
            if event.raw_input is not None:
                update["rawInput"] = event.raw_input
            if event.content is not None:
                update["content"] = event.content
            return update | parent_meta(event.parent_call_id)
        case ev.ToolResult():
            return {
                "sessionUpdate": "tool_call_update",
                "toolCallId": event.call_id,
                "status": event.status,
                "content": event.content,
                "rawOutput": event.raw_output,
            } | parent_meta(event.parent_call_id)
        case ev.PlanChanged():
            return {"sessionUpdate": "plan", "entries": event.entries}
        case ev.UsageChanged():
            update = {"sessionUpdate": "usage_update", "used": event.used, "size": event.size}
            if event.cost is not None:
                update["cost"] = {"amount": round(event.cost, 6), "currency": "USD"}
            return update
        case _:
            raise TypeError(f"{type(event).__name__} is text and has no update of its own")


def _tool_use_start(event: ev.ToolUseStart) -> dict[str, Any]:
    update: dict[str, Any] = {
        "sessionUpdate": "tool_call",
        "toolCallId": event.call_id,
        "title": event.title,
        "kind": event.kind,
        "status": event.status,
        "rawInput": event.raw_input,
    }
    if event.locations:
        update["locations"] = event.locations
    if event.content:
        update["content"] = event.content
    return update | parent_meta(event.parent_call_id)


def parent_meta(call_id: str | None) -> dict[str, Any]:
    """What shows a sub-agent's call below the call that started it; nothing for another one."""
    return {"_meta": {"iac-code": {"parentToolCallId": call_id}}} if call_id is not None else {}


def call_status(event: ev.Event) -> tuple[str, str]:
    """The tool call that an event is about and its new status, or two empty strings."""
    match event:
        case ev.ToolUseStart():
            return event.call_id, event.status
        case ev.ToolProgress():
            return event.call_id, "in_progress"
        case ev.ToolResult():
            return event.call_id, event.status
        case _:
            return "", ""


def text_content(text: str) -> list[dict[str, Any]]:
    """Text as a tool call's content."""
    return [{"type": "content", "content": {"type": "text", "text": text}}] if text else []
