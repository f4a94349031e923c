"""What an editor finds again that starts its agent anew, after whatever end of the old one (protocol §8)."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.e2e.client import start_agent
from tests.e2e.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.e2e.client import RawClient

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def agent(home: Path) -> AsyncIterator[RawClient]:
    """An agent with the offline model. Its process group ends by SIGKILL, as some editors do it."""
    async with start_agent(home, wire=Wire(), env={"IAC_CODE_MODEL": "offline"}) as client:
        await client.initialize()
        yield client
        os.killpg(client.process.pid, 9)
        await client.process.wait()


@contextmanager
def held(home: Path, session: str) -> Iterator[None]:
    """Another process has the session open."""
    lock = os.open(home / "config" / "sessions" / session / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


async def held_sessions(
    home: Path, client: RawClient, first: str, second: str, place: dict[str, Any]
) -> None:
    """A session that another process still holds is waited for, and the wait can be cancelled."""
    with held(home, first):
        asked = await client.begin_prompt(first, "say patient")
        await client.call("session/list", {})  # others do not wait
        assert client.answers(asked) == []
    assert (await client.answer_to(asked))["result"]["stopReason"] == "end_turn"
    assert "patient" in client.text(first)
    with held(home, second):
        load = await client.begin("session/load", {"sessionId": second, **place})
        prompt = await client.begin_prompt(second, "say never")
        with anyio.fail_after(2.5):  # at once, not when the lock comes or the wait is over
            for id_ in (prompt, load):
                await client.notify("$/cancel_request", {"requestId": id_})
            assert (await client.answer_to(prompt))["result"]["stopReason"] == "cancelled"
            assert (await client.answer_to(load))["error"]["code"] == -32800
        error: dict[str, Any] = (await client.prompt(second, "say held"))["error"]
        assert error["code"] == -32603
        assert error["data"]["session_id"] == second
        assert error["data"]["details"]
    assert (await client.prompt(second, "say free again"))["result"]["stopReason"] == "end_turn"
    assert "never" not in client.text(second)
    assert len(client.answers(load)) == len(client.answers(prompt)) == 1


async def test_everything_is_found_again_after_a_kill(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    place = {"cwd": str(work), "mcpServers": []}
    async with agent(tmp_path) as client:
        never_prompted = await client.new_session(work)
        first = await client.new_session(work)
        for option, value in (("mode", "bypass_permissions"), ("thinking", "high")):
            await client.call("config/set", {"sessionId": first, "configId": option, "value": value})
        client.answer_permission = "allow_always"
        await client.prompt(first, "run touch one")
        await client.prompt(first, "/rename The first")
        fork = (await client.call("session/fork", {"sessionId": first, **place}))["sessionId"]
        cleared = await client.new_session(work)
        await client.prompt(cleared, "say forgotten")
        await client.prompt(cleared, "/clear")
        granted = await client.new_session(work)
        await client.prompt(granted, "run touch two")
        closed = await client.new_session(work)
        await client.call("session/close", {"sessionId": closed})
        held_first, held_second = [await client.new_session(work) for _ in range(2)]
        ids = {never_prompted, first, fork, cleared, granted, closed, held_first, held_second}

    async with agent(tmp_path) as client:
        listed = {info["sessionId"]: info for info in (await client.call("session/list", {}))["sessions"]}
        assert listed.keys() == ids
        assert listed[first]["title"] == "The first"
        # An editor that goes on with its old ids, without a load.
        seen = len(client.messages)
        assert (await client.prompt(first, "run touch three"))["result"]["stopReason"] == "end_turn"
        fresh = client.messages[seen:]
        assert [m for m in fresh if m.get("method") == "session/request_permission"], "bypass is not kept"
        modes = [u["currentModeId"] for u in client.updates(first, "current_mode_update")]
        assert modes == ["default"], "and the editor, which shows the mode, is told"
        assert (await client.prompt(closed, "say no"))["error"]["data"] == {"session_id": "Session not found"}

        loaded = await client.call("session/load", {"sessionId": fork, **place})
        values = {option["id"]: option["currentValue"] for option in loaded["configOptions"]}
        assert values == {"mode": "bypass_permissions", "model": "offline", "thinking": "high"}
        assert loaded["modes"]["currentModeId"] == "bypass_permissions"
        assert "touch one" in client.text(fork, "user_message_chunk")
        assert "touch three" not in client.text(fork, "user_message_chunk")
        await client.call("session/delete", {"sessionId": first})
        assert (await client.prompt(fork, "say on its own"))["result"]["stopReason"] == "end_turn"

        await client.call("session/load", {"sessionId": cleared, **place})
        assert "forgotten" not in json.dumps(client.updates(cleared))
        await client.call("session/resume", {"sessionId": granted, **place})
        seen = len(client.messages)
        await client.prompt(granted, "run touch four")
        assert not [m for m in client.messages[seen:] if m.get("method") == "session/request_permission"]
        assert "sessionId" not in await client.call("session/resume", {"sessionId": never_prompted, **place})
        assert (await client.prompt(never_prompted, "say first"))["result"]["stopReason"] == "end_turn"
        await held_sessions(tmp_path, client, held_first, held_second, place)
        assert client.stderr == b""
