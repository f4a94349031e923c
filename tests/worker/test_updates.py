"""Internal events as ACP's updates: the table of the protocol, row by row, and never a null."""

from __future__ import annotations

from typing import Any

import pytest

from worker import events as ev
from worker.updates import call_status, text_content, to_update

TEXT = [{"type": "content", "content": {"type": "text", "text": "x"}}]
PARENT = {"_meta": {"iac-code": {"parentToolCallId": "p"}}}
STARTED: dict[str, Any] = {
    "sessionUpdate": "tool_call",
    "toolCallId": "c",
    "title": "Run ls",
    "kind": "execute",
    "status": "pending",
    "rawInput": {"command": "ls"},
}


@pytest.mark.parametrize(
    ("event", "update", "status"),
    [
        (ev.ToolUseStart("c", "Run ls", "execute", "pending", {"command": "ls"}), STARTED, "pending"),
        (
            ev.ToolUseStart(
                "c", "Run ls", "execute", "in_progress", {"command": "ls"}, [{"path": "/a"}], TEXT, "p"
            ),
            {**STARTED, "status": "in_progress", "locations": [{"path": "/a"}], "content": TEXT, **PARENT},
            "in_progress",
        ),
        (
            ev.ToolProgress("c"),
            {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"},
            "in_progress",
        ),
        (
            ev.ToolProgress("c", {"command": "ls"}, TEXT, "p"),
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "status": "in_progress",
                "rawInput": {"command": "ls"},
                "content": TEXT,
                **PARENT,
            },
            "in_progress",
        ),
        (
            ev.ToolResult("c", "failed", TEXT, {"error": "no"}, "p"),
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "status": "failed",
                "content": TEXT,
                "rawOutput": {"error": "no"},
                **PARENT,
            },
            "failed",
        ),
        (ev.PlanChanged([{"content": "a"}]), {"sessionUpdate": "plan", "entries": [{"content": "a"}]}, ""),
        (ev.UsageChanged(5, 10), {"sessionUpdate": "usage_update", "used": 5, "size": 10}, ""),
        (
            ev.UsageChanged(5, 10, 0.12345678),
            {
                "sessionUpdate": "usage_update",
                "used": 5,
                "size": 10,
                "cost": {"amount": 0.123457, "currency": "USD"},
            },
            "",
        ),
    ],
)
def test_an_event_has_its_update(event: ev.Event, update: dict[str, Any], status: str) -> None:
    assert to_update(event) == update
    assert call_status(event) == (("c", status) if status else ("", ""))
    assert None not in to_update(event).values()


@pytest.mark.parametrize("event", [ev.TextDelta("x", "m"), ev.ThinkingDelta("x", "m"), ev.Error("x")])
def test_text_is_the_publishers(event: ev.Event) -> None:
    with pytest.raises(TypeError):
        to_update(event)
    assert call_status(event) == ("", "")


def test_no_text_is_no_content() -> None:
    assert text_content("") == []
    assert text_content("x") == TEXT
