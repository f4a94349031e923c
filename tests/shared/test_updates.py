"""Each update has the standard's shape, and in dialect `both` the reference's keys beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest

from shared.updates import chunk, prompt_result, update_line

if TYPE_CHECKING:
    from shared.updates import Dialect

CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
USAGE = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
Kind = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]


def sent(update: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    line = update_line("s-1", update, dialect)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    message = json.loads(line)
    assert message["jsonrpc"] == "2.0"
    assert message["method"] == "session/update"
    assert set(message) == {"jsonrpc", "method", "params"}
    assert message["params"]["sessionId"] == "s-1"
    return dict(message["params"]["update"])


@pytest.mark.parametrize("kind", CHUNKS)
def test_a_chunk_carries_its_text_twice_for_the_reference_and_once_for_the_standard(kind: Kind) -> None:
    update = chunk(kind, 'Hi "there"\n', "m1")
    standard = {
        "sessionUpdate": kind,
        "messageId": "m1",
        "content": {"type": "text", "text": 'Hi "there"\n'},
    }
    assert sent(update, "acp") == standard
    assert sent(update, "both") == {**standard, "type": kind, "text": 'Hi "there"\n'}


def test_an_absent_message_id_is_omitted_and_not_null() -> None:
    assert "messageId" not in sent(chunk("user_message_chunk", "x"), "both")


@pytest.mark.parametrize("kind", ["tool_call", "tool_call_update"])
def test_a_tool_update_carries_its_input_and_output_under_both_names(kind: str) -> None:
    update = {
        "sessionUpdate": kind,
        "toolCallId": "c",
        "rawInput": {"path": "/a"},
        "rawOutput": {"output": "x"},
        "content": [{"type": "content", "content": {"type": "text", "text": "x"}}],
    }
    assert sent(update, "acp") == update
    assert sent(update, "both") == {
        **update,
        "type": kind,
        "raw_input": {"path": "/a"},
        "raw_output": {"output": "x"},
    }


def test_what_a_tool_update_lacks_is_lacking_under_both_names() -> None:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"}
    assert sent(update, "both") == {**update, "type": "tool_call_update"}


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "available_commands_update", "availableCommands": []},
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
        {"sessionUpdate": "config_option_update", "configOptions": []},
        {"sessionUpdate": "session_info_update", "title": "t"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    ],
    ids=lambda update: update["sessionUpdate"],
)
def test_every_other_update_repeats_its_kind_as_type_and_nothing_else(update: dict[str, Any]) -> None:
    assert sent(update, "both") == {**update, "type": update["sessionUpdate"]}
    assert sent(update, "acp") == update


def test_the_reference_has_usage_beside_the_stop_reason() -> None:
    assert prompt_result("cancelled", USAGE, "both") == {"stopReason": "cancelled", "usage": USAGE}


def test_the_standard_has_usage_below_meta_alone() -> None:
    assert prompt_result("end_turn", USAGE, "acp") == {"stopReason": "end_turn", "_meta": {"usage": USAGE}}


def test_half_a_character_does_not_break_the_line() -> None:
    found = sent(chunk("agent_message_chunk", "a\ud83d", "m"), "both")
    assert found["text"] == found["content"]["text"] == "a\ufffd"
