"""Modes, models and config options: three views of one state, always in step (protocol §1, §3, §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import permission

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

MODES = ["default", "accept_edits", "plan", "bypass_permissions"]


def values(options: list[dict[str, Any]]) -> dict[str, str]:
    """The current value of each option; each is one that is offered."""
    for option in options:
        assert option["currentValue"] in [choice["value"] for choice in option["options"]]
    return {option["id"]: option["currentValue"] for option in options}


def in_step(fields: dict[str, Any]) -> dict[str, str]:
    """The current values, the same in `modes`, `models` and `configOptions`."""
    current = values(fields["configOptions"])
    assert fields["modes"]["currentModeId"] == current["mode"]
    assert fields["models"]["currentModelId"] == current["model"]
    choices = {
        option["id"]: [choice["value"] for choice in option["options"]] for option in fields["configOptions"]
    }
    assert [mode["id"] for mode in fields["modes"]["availableModes"]] == choices["mode"] == MODES
    assert [model["modelId"] for model in fields["models"]["availableModels"]] == choices["model"]
    assert "offline" in choices["model"]
    assert len(choices["model"]) > 4
    assert choices["thinking"] == ["off", "low", "medium", "high"]
    categories = {option["id"]: option["category"] for option in fields["configOptions"]}
    assert categories == {"mode": "mode", "model": "model", "thinking": "thought_level"}
    return current


async def test_every_way_to_set_an_option_is_told_in_every_view(r: Rig, work: Path) -> None:
    place = {"cwd": str(work), "mcpServers": []}
    made = await r.client.call("session/new", place)
    session, current = made["sessionId"], in_step(made)
    assert (current["mode"], current["thinking"]) == ("default", "off")
    for method, params, option, value in (
        ("session/set_config_option", {"configId": "thinking", "value": "high"}, "thinking", "high"),
        ("config/set", {"configId": "mode", "value": "accept_edits"}, "mode", "accept_edits"),
        ("session/set_mode", {"modeId": "plan"}, "mode", "plan"),
        ("session/set_model", {"modelId": "offline"}, "model", "offline"),
        ("config/set", {"configId": "model", "value": "claude-opus-5-5"}, "model", "claude-opus-5-5"),
    ):
        seen = len(r.client.updates(session))
        answer = await r.client.call(method, {"sessionId": session, **params})
        current[option] = value
        told = r.client.updates(session)[seen:]
        (changed,) = [u for u in told if u["sessionUpdate"] == "config_option_update"]
        assert values(changed["configOptions"]) == current, method
        modes = [u["currentModeId"] for u in told if u["sessionUpdate"] == "current_mode_update"]
        assert modes == ([value] if option == "mode" else [])
        if "configId" in params:
            assert answer["configOptions"] == changed["configOptions"], "the answer has the complete list"
        for method in ("session/load", "session/resume"):
            assert in_step(await r.client.call(method, {"sessionId": session, **place})) == current
    fork = await r.client.call("session/fork", {"sessionId": session, **place})
    assert in_step(fork) == current


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("config/set", {"configId": "nope", "value": "x"}, ("mode", "model", "thinking")),
        ("config/set", {"configId": "mode", "value": "yolo"}, MODES),
        ("config/set", {"configId": "mode", "value": None}, MODES),
        ("config/set", {"configId": "mode", "value": ["plan"]}, MODES),
        ("config/set", {"configId": "mode", "value": True}, MODES),
        (
            "session/set_config_option",
            {"configId": "thinking", "value": "max"},
            ("off", "low", "medium", "high"),
        ),
        ("session/set_config_option", {"configId": "model", "value": "gpt"}, ("offline", "claude-opus-5-5")),
        ("session/set_mode", {"modeId": "Plan"}, MODES),
        ("session/set_model", {"modelId": ""}, ("offline", "claude-opus-5-5")),
    ],
)
async def test_what_is_not_on_offer_is_refused_with_what_is(
    r: Rig, work: Path, method: str, params: dict[str, Any], named: list[str]
) -> None:
    session = await r.client.new_session(work)
    seen = len(r.client.updates(session))
    error = (await r.client.request(method, {"sessionId": session, **params}))["error"]
    assert error["code"] == -32602
    (field,) = error["data"].keys() - {"details"}
    assert all(name in error["data"][field] and name in error["data"]["details"] for name in named), error
    assert not [u for u in r.client.updates(session)[seen:] if "mode" in u["sessionUpdate"]]


WRITE = '@tool write_file {"path": "%s", "content": "x"}'


async def test_modes_ask_allow_and_refuse(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)

    async def run(mode: str, call: str) -> tuple[int, str]:
        """How often was asked, and how the call ended."""
        await r.client.call("session/set_mode", {"sessionId": session, "modeId": mode})
        seen = len(r.client.messages)
        assert (await r.client.prompt(session, call))["result"]["stopReason"] == "end_turn"
        fresh = r.client.messages[seen:]
        asked = sum(m.get("method") == "session/request_permission" for m in fresh)
        updates = [m["params"]["update"] for m in fresh if m.get("method") == "session/update"]
        (ended,) = [u["status"] for u in updates if u.get("status") in ("completed", "failed")]
        return asked, ended

    assert await run("default", WRITE % "a") == (1, "completed")
    assert await run("accept_edits", WRITE % "b") == (0, "completed")
    assert await run("accept_edits", '@tool bash {"command": "true"}') == (1, "completed")
    assert await run("plan", WRITE % "c") == (0, "failed")
    assert await run("plan", "@tool list_files {}") == (0, "completed")
    assert await run("bypass_permissions", '@tool bash {"command": "true"}') == (0, "completed")
    outside = work.parent / "outside"
    assert await run("bypass_permissions", WRITE % outside) == (1, "completed")
    assert [(work / name).exists() for name in "abc"] == [True, True, False]


async def test_a_mode_changed_in_mid_turn_holds_from_the_next_call_on(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    r.client.answer_permission = None
    seen = len(r.client.messages)
    turn = await r.client.begin_prompt(session, "\n".join([WRITE % "one", "@text then", WRITE % "two"]))
    asked = await r.client.wait_for(
        lambda m: m.get("method") == "session/request_permission" and m in r.client.messages[seen:]
    )
    r.client.answer_permission = "allow_once"
    await r.client.call("session/set_mode", {"sessionId": session, "modeId": "accept_edits"})
    await r.client.respond(asked, permission(asked, "allow_once"))
    assert (await r.client.answer_to(turn))["result"]["stopReason"] == "end_turn"
    assert sum(m.get("method") == "session/request_permission" for m in r.client.messages[seen:]) == 1
    assert (work / "two").exists()
