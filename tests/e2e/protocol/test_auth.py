"""Credentials: none are asked for that are not needed, and where they are it is said what to do (§2, §7)."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread

from shared.credentials import Credentials, save_login
from tests.e2e.client import AGENT, offline_environment, start_agent
from tests.e2e.rig import rig
from tests.e2e.wire import Wire

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_missing_credentials_are_told_and_can_be_given_in_a_terminal(tmp_path: Path) -> None:
    chosen = {"IAC_CODE_MODEL": "claude-opus-5-5"}
    async with start_agent(tmp_path, env=chosen, wire=Wire()) as client:
        terminal = {"auth": {"terminal": True}}
        capabilities: dict[str, Any]
        for capabilities in (
            {},
            {"auth": {}},
            {"auth": {"terminal": False}},
            {"auth": None},
            {"terminal": True},
        ):
            assert (await client.initialize(**capabilities))["authMethods"] == [], capabilities
        initialized = await client.initialize(**terminal)
        (method,) = initialized["authMethods"]
        assert (method["type"], method["args"]) == ("terminal", ["--login"])
        assert method["id"]
        assert method["name"]

        session = await client.new_session(tmp_path)
        for _ in range(2):
            error = (await client.prompt(session, "hello"))["error"]
            assert (error["code"], error["message"]) == (-32000, "Authentication required")
            assert "ANTHROPIC_API_KEY" in error["data"]["details"]
        assert (
            "ANTHROPIC_API_KEY"
            in (await client.request("authenticate", {"methodId": "login"}))["error"]["data"]["details"]
        )
        # The session is as usable as before, with a model that needs none.
        await client.call("session/set_model", {"sessionId": session, "modelId": "offline"})
        assert (await client.prompt(session, "say hello"))["result"]["stopReason"] == "end_turn"

        # What a client does with the method: its own command for the agent, with the args at the end.
        done = await to_thread.run_sync(
            lambda: subprocess.run(
                [*AGENT, *method["args"]],
                input=b"sk-ant-made-up\n",
                env=offline_environment(tmp_path) | chosen,
                capture_output=True,
                check=False,
            )
        )
        assert done.returncode == 0, done.stderr
        stored = tmp_path / "config" / "credentials.json"
        assert stored.stat().st_mode & 0o777 == 0o600
        assert (await client.initialize(**terminal))["authMethods"] == []
        assert await client.call("authenticate", {"methodId": "login"}) == {}
        assert await client.call("logout", {}) == {}
        assert not stored.exists()
        assert (await client.initialize(**terminal))["authMethods"] == [method]
        assert b"sk-ant" not in b"".join(client.lines)
        assert client.stderr == b""


async def test_a_login_helps_the_session_that_asked_for_it(tmp_path: Path) -> None:
    config = tmp_path / "home" / "config"
    save_login(config, Credentials(api_key="refused"))
    async with rig(tmp_path, env={"ANTHROPIC_API_KEY": ""}) as r:
        session = await r.client.new_session(r.work)
        error = (await r.client.prompt(session, "@text no"))["error"]
        assert error["code"] == -32000
        assert "iac-code login" in error["data"]["details"]
        save_login(config, Credentials(api_key="good"))
        assert (await r.client.prompt(session, "@text yes"))["result"]["stopReason"] == "end_turn"
