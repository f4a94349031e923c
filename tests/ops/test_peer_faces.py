"""The double says the same in OpenAI's and Gemini's dialect as in its own."""

from __future__ import annotations

import json
from typing import Any

from ops.benchmarks.peers import faces
from tests.double.replies import Pause

_PROMPT = '@text one two\n@sleep 0.5\n@deltas 3\n@tool bash {"command": "true"}\n@text after'
_TOOLS = [{"name": "bash"}]


def _chat(messages: list[dict[str, Any]], **more: Any) -> list[Any]:
    return list(faces.chat_events({"model": "m", "messages": messages, "tools": _TOOLS, **more}))


def _gemini(contents: list[dict[str, Any]]) -> list[Any]:
    return list(faces.gemini_events({"contents": contents, "tools": _TOOLS}))


def _data(events: list[Any]) -> list[dict[str, Any]]:
    lines = [event.decode().removeprefix("data: ") for event in events if isinstance(event, bytes)]
    return [json.loads(line) for line in lines if "[DONE]" not in line]


def test_a_chat_completion_streams_text_a_pause_and_a_call() -> None:
    events = _chat([{"role": "system", "content": "s"}, {"role": "user", "content": _PROMPT}])
    choices = [event["choices"][0] for event in _data(events)]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
    assert text == "one twotok0 tok1 tok2 "
    assert [call["function"] for call in calls] == [{"name": "bash", "arguments": '{"command": "true"}'}]
    assert choices[-1]["finish_reason"] == "tool_calls"
    assert [event.seconds for event in events if isinstance(event, Pause)] == [0.5]


def test_a_chat_completion_goes_on_after_a_calls_result() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": _PROMPT}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]
    choices = [event["choices"][0] for event in _data(_chat(history))]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == "after"
    assert choices[-1]["finish_reason"] == "stop"


def test_what_is_asked_without_tools_is_no_turn_and_gets_a_greeting() -> None:
    events = _data(_chat([{"role": "user", "content": "Title for: @deltas 2000"}], tools=None))
    assert len(events) < 10


def test_gemini_streams_the_same_and_goes_on_after_the_result() -> None:
    asked = {"role": "user", "parts": [{"text": _PROMPT}]}
    parts = [part for event in _data(_gemini([asked])) for part in event["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in parts) == "one twotok0 tok1 tok2 "
    (call,) = [part["functionCall"] for part in parts if "functionCall" in part]
    assert (call["name"], call["args"]) == ("bash", {"command": "true"})
    answered = [
        {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "bash", "response": {"output": "ok"}}}]},
    ]
    after = _data(_gemini([asked, *answered]))
    assert after[0]["candidates"][0]["content"]["parts"] == [{"text": "after"}]
