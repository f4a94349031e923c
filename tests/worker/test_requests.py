"""How a request is put together: cache breakpoints, thinking, limits."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from shared import catalog
from tests.double.rules import problem
from worker.models.base import ModelRequest, ThinkingLevel
from worker.models.requests import arguments, signatures, without_thinking

TOOLS = [{"name": name, "description": "d", "input_schema": {"type": "object"}} for name in "abc"]
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
    {"role": "user", "content": [{"type": "text", "text": "second"}]},
]


def made(model: str = "claude-sonnet-5-5", **changed: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"system": "s", "messages": MESSAGES, "tools": TOOLS, "max_tokens": 8_000}
    entry = catalog.load().entry(model)
    return arguments(ModelRequest(model=model, **(fields | changed)), entry)


def test_breakpoints_are_on_the_last_tool_the_system_and_the_newest_user_messages() -> None:
    request = made()
    assert ["cache_control" in tool for tool in request["tools"]] == [False, False, True]
    assert "cache_control" in request["system"][0]
    assert "cache_control" in request["messages"][2]["content"][-1]
    assert "cache_control" in request["messages"][0]["content"][-1]


def test_what_the_caller_gave_is_not_changed() -> None:
    before = copy.deepcopy((MESSAGES, TOOLS))
    made()
    assert before == (MESSAGES, TOOLS)


def test_empty_parts_are_left_out() -> None:
    request = made(system="", tools=[])
    assert "system" not in request
    assert "tools" not in request


def test_max_tokens_is_what_the_model_can_give() -> None:
    assert made(max_tokens=10_000_000)["max_tokens"] == 128_000


def test_a_cloud_gets_its_own_id() -> None:
    assert made("bedrock/anthropic.claude-sonnet-5-5")["model"] == "anthropic.claude-sonnet-5-5"


@pytest.mark.parametrize("model", [entry.id for entry in catalog.load().entries])
@pytest.mark.parametrize("level", ["off", "low", "medium", "high"])
def test_every_level_is_one_that_the_model_takes(model: str, level: ThinkingLevel) -> None:
    assert problem({**made(model, thinking=level), "stream": True}) is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-sonnet-5-5", {"type": "between_tools"}),
        ("claude-haiku-5-5", {"type": "disabled"}),
        ("claude-opus-5-5", {"type": "adaptive", "display": "summarized"}),
        ("unheard-of", None),
    ],
)
def test_thinking_is_turned_off_as_far_as_the_model_allows(
    model: str, expected: dict[str, str] | None
) -> None:
    request = made(model, thinking="off")
    assert request.get("thinking") == expected
    assert request.get("output_config") == ({"effort": "low"} if expected and "display" in expected else None)


def test_a_level_is_an_effort_and_shows_the_thinking() -> None:
    request = made(thinking="medium")
    assert request["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert request["output_config"] == {"effort": "medium"}


@pytest.mark.parametrize(
    ("level", "max_tokens", "expected"),
    [
        ("low", 8_000, {"type": "enabled", "budget_tokens": 4_000}),
        ("high", 32_000, {"type": "enabled", "budget_tokens": 16_000}),
        ("high", 1_000, None),
        ("off", 32_000, None),
    ],
)
def test_older_models_get_a_budget_that_leaves_room_for_a_reply(
    level: ThinkingLevel, max_tokens: int, expected: dict[str, Any] | None
) -> None:
    entry = catalog.load([{"id": "old", "thinking": True, "thinking_form": "budget"}]).entry("old")
    request = ModelRequest("old", "s", MESSAGES, [], max_tokens, level)
    assert arguments(request, entry).get("thinking") == expected


def test_thinking_can_be_taken_out_without_leaving_an_empty_message() -> None:
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    hidden = {"type": "redacted_thinking", "data": "d"}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [thought, hidden]},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "c"}]},
        {"role": "user", "content": "d"},
    ]
    assert without_thinking(messages, {"d"})[1] == {"role": "assistant", "content": [thought]}
    assert without_thinking(messages, signatures(messages)) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}]},
        {"role": "user", "content": "d"},
    ]
