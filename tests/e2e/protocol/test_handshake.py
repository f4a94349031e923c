"""`initialize`, what stands before it, methods by both their names, unknown ones (protocol §1, §2, §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.version import VERSION
from tests.e2e.client import start_agent
from tests.e2e.wire import Wire

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio


async def test_only_initialize_is_answered_before_it_and_the_version_is_never_echoed(tmp_path: Path) -> None:
    async with start_agent(tmp_path, wire=Wire()) as client:
        for method in ("session/new", "session/list", "no/such", "$/cancel_request"):
            error = (await client.request(method, {}))["error"]
            assert error["code"] == -32600, method
            assert "initialize" in error["data"]["details"]
        await client.notify("session/cancel", {"sessionId": "x"})
        version: Any
        for version in (1, 2, 65535, "1", None, {}):
            result = await client.call("initialize", {"protocolVersion": version})
            assert result["protocolVersion"] == 1, version
        assert await client.call("initialize", {}) == result
        assert result["agentInfo"] == {"name": "iac-code", "title": "iac-code", "version": VERSION}
        assert result["authMethods"] == []
        capabilities = result["agentCapabilities"]
        assert capabilities["loadSession"] is True
        assert capabilities["promptCapabilities"] == {"embeddedContext": True, "image": False, "audio": False}
        assert capabilities["mcpCapabilities"].keys() == {"http", "sse"}
        names = ("list", "close", "resume", "fork", "delete", "additionalDirectories")
        assert capabilities["sessionCapabilities"] == {name: {} for name in names}
        assert (await client.call("session/list", {}))["sessions"] == []
        # Servers absent, and in the reference's and the standard's shape.
        servers: Any
        for servers in ({}, [], None, {"a": {"command": "true", "args": [], "env": {}}}):
            params: dict[str, Any] = {"cwd": str(tmp_path)} | (
                {} if servers is None else {"mcpServers": servers}
            )
            assert (await client.call("session/new", params))["sessionId"]


async def test_each_method_is_there_under_both_names(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    listed = [await r.client.call(name, {"cwd": str(work)}) for name in ("session/list", "sessions/list")]
    assert listed[0] == listed[1]
    params = {"sessionId": session, "configId": "thinking", "value": "low"}
    set_to = [await r.client.call(name, params) for name in ("config/set", "session/set_config_option")]
    assert set_to[0] == set_to[1]
    assert await r.client.call("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
    assert await r.client.call("session/set_model", {"sessionId": session, "modelId": "offline"}) == {}
    assert await r.client.call("session/cancel", {"sessionId": session}) == {}
    assert await r.client.call("authenticate", {"methodId": "login"}) == {}
    assert await r.client.call("$/cancel_request", {"requestId": 123456}) == {}


async def test_members_by_another_languages_names_are_read_too(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    params = {"session_id": session, "config_id": "mode", "value": "plan", "_meta": {"some_thing": 1}}
    assert (await r.client.call("config/set", params))["configOptions"][0]["currentValue"] == "plan"
    error = (await r.client.request("session/set_mode", {"session_id": "gone", "mode_id": "plan"}))["error"]
    assert error["data"] == {"session_id": "Session not found"}


@pytest.mark.parametrize(
    "method", ["no/such", "_anything", "_iac-code/x", "session", "", "fs/read_text_file"]
)
async def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored(r: Rig, method: str) -> None:
    await r.client.notify(method, {})
    error = (await r.client.request(method, {}))["error"]
    assert (error["code"], error["message"]) == (-32601, "Method not found")


SESSION_METHODS: dict[str, dict[str, Any]] = {
    "session/load": {"cwd": "/", "mcpServers": []},
    "session/resume": {"cwd": "/"},
    "session/fork": {"cwd": "/"},
    "session/prompt": {"prompt": [{"type": "text", "text": "x"}]},
    "session/cancel": {},
    "session/close": {},
    "session/set_mode": {"modeId": "plan"},
    "session/set_model": {"modelId": "offline"},
    "session/set_config_option": {"configId": "mode", "value": "plan"},
    "config/set": {"configId": "mode", "value": "plan"},
}


@pytest.mark.parametrize("method", SESSION_METHODS)
async def test_an_unknown_session_has_one_error_whatever_the_method(r: Rig, method: str) -> None:
    for unknown in ("00000000-0000-4000-8000-000000000000", "..", "a/b", "x" * 65, "", "é", "a\n", "nul\0"):
        error = (await r.client.request(method, {"sessionId": unknown, **SESSION_METHODS[method]}))["error"]
        expected = {"code": -32602, "message": "Invalid params", "data": {"session_id": "Session not found"}}
        assert error == expected, unknown


@pytest.mark.parametrize("method", SESSION_METHODS)
async def test_bad_params_are_named_field_by_field(r: Rig, method: str) -> None:
    bad: Any
    for bad in (None, [], 7, {}, {"sessionId": None}, {"sessionId": 7}, {"sessionId": ["x"]}):
        error = (await r.client.request(method, bad))["error"]
        assert error["code"] == -32602, bad
        assert {"sessionId", "params"} & error["data"].keys(), bad
        assert error["data"]["details"], bad
    required = SESSION_METHODS[method].keys() - {"mcpServers"}
    error = (await r.client.request(method, {"sessionId": "x"}))["error"]
    assert error["code"] == -32602
    assert required <= error["data"].keys() or error["data"] == {"session_id": "Session not found"}
