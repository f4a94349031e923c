"""A session that slept answers as if it had not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.lock import SessionHeld, SessionLock
from tests.e2e.rig import rig, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_an_idle_session_gives_its_worker_back_and_wakes_with_its_conversation(tmp_path: Path) -> None:
    async with rig(tmp_path, settings={"hibernate_after": 0.5}) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@text remember-this")
        await until(lambda: r.client.worker(session) is None)
        assert not list((r.sessions / session).glob("crash-*.txt"))
        with pytest.raises(SessionHeld) as raised:  # it sleeps here, and is nobody else's
            SessionLock.acquire(r.sessions / session)
        assert raised.value.pid == r.client.process.pid
        answer = await r.client.prompt(session, "@text awake")
        assert answer["result"]["stopReason"] == "end_turn"
        assert "remember-this" in r.asked()


async def test_a_turn_is_not_put_to_sleep(tmp_path: Path) -> None:
    async with rig(tmp_path, settings={"hibernate_after": 0.2, "max_live_workers": 1}) as r:
        sessions = [await r.client.new_session(r.work) for _ in range(3)]
        ids = [await r.client.begin_prompt(s, "@deltas 5\n@sleep 1\n@text end") for s in sessions]
        for id_ in ids:
            assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
        assert all("restarted" not in r.client.text(s) for s in sessions)
