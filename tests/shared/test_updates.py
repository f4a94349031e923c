"""Lines and answers in both dialects."""

from __future__ import annotations

import json

from shared.updates import chunk, prompt_result, update_line

USAGE = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}


def test_the_reference_has_usage_beside_the_stop_reason() -> None:
    assert prompt_result("cancelled", USAGE, "both") == {"stopReason": "cancelled", "usage": USAGE}


def test_the_standard_has_usage_below_meta_alone() -> None:
    assert prompt_result("end_turn", USAGE, "acp") == {"stopReason": "end_turn", "_meta": {"usage": USAGE}}


def test_the_references_keys_stand_beside_the_standards() -> None:
    update = chunk("agent_message_chunk", "Hi", "m")
    assert json.loads(update_line("s", update, "both"))["params"]["update"] == {
        **update,
        "type": "agent_message_chunk",
        "text": "Hi",
    }
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "rawInput": {"a": 1}}
    assert json.loads(update_line("s", call, "both"))["params"]["update"] == {
        **call,
        "type": "tool_call",
        "raw_input": {"a": 1},
    }


def test_the_bare_standard_has_none_of_them() -> None:
    update = chunk("agent_thought_chunk", "Hm")
    assert json.loads(update_line("s", update, "acp"))["params"] == {"sessionId": "s", "update": update}
