"""Deaths and hangs are told: to the user in the session, to a person by `ps` and in the session's folder."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread

from supervisor.cli.ps import SOCKET_NAME, query
from tests.e2e.client import offline_environment
from tests.e2e.rig import rig, until

if TYPE_CHECKING:
    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio


async def ps(r: Rig, session: str) -> dict[str, Any]:
    """What `iac-code ps --json` has of a session."""
    runtime = Path(offline_environment(r.home)["XDG_RUNTIME_DIR"]) / "iac-code"
    (socket,) = runtime.glob(f"{r.client.process.pid}-*/{SOCKET_NAME}")
    state = await to_thread.run_sync(query, socket)
    assert state is not None
    (row,) = [row for row in state["sessions"] if row["sessionId"] == session]
    return dict(row)


async def test_a_hang_is_shown_then_ended_and_reported(tmp_path: Path) -> None:
    settings = {"unresponsive_after": 1.5, "kill_after_in_turn": 4.0}
    async with rig(tmp_path, settings=settings, answer_permission="allow_always") as r:
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, '@tool bash {"command": "echo ran; sleep 60"}\n@text back')
        await r.client.wait_until(lambda: "ran" in str(r.client.updates(session, "tool_call_update")))
        assert (await ps(r, session))["state"] == "running"
        r.kill_worker(session, signal.SIGSTOP)
        await r.client.wait_text(session, "does not answer")
        row = await ps(r, session)
        assert (row["state"], row["restarts"], row["lastDeath"]) == ("unresponsive", 0, None)
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
        assert r.client.text(session).count("does not answer") == 1
        row = await ps(r, session)
        assert (row["state"], row["restarts"], row["epoch"]) == ("idle", 1, 2)
        assert "did not answer" in row["lastDeath"]
        report = r.sessions / session / "crash-1.txt"
        await until(lambda: report.exists() and "stacks" in report.read_text())
        text = report.read_text()
        assert report.stat().st_mode & 0o777 == 0o600
        (call,) = r.statuses(session)
        for told in (f"session {session}, epoch 1", "did not answer; SIGKILL", "in a turn"):
            assert told in text
        assert f"{call} in_progress" in text
        assert "kind=tool_start" in text
        assert "echo ran" not in text, "what was said stays in the history"


async def test_a_worker_that_takes_too_much_memory_itself_is_replaced(tmp_path: Path) -> None:
    async with rig(tmp_path, settings={"memory_limit": 2**20}) as r:
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, "@deltas 3\n@sleep 30")
        await r.client.wait_text(session, "the turn goes on")
        assert "of memory, the limit is 1 MiB" in r.client.text(session)
        await r.client.notify("session/cancel", {"sessionId": session})
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
