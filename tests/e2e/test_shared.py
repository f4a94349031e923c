"""The shared agent: one front, many clients, sessions that outlive their connections."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.client import permission
from tests.e2e.shared_agent import place

if TYPE_CHECKING:
    from tests.e2e.shared_agent import Shared

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(150)]


async def test_two_clients_share_a_session_and_see_the_same(s: Shared) -> None:
    async with s.client() as a, s.client(answer_permission=None) as b:
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        id_ = await a.begin_prompt(session, "@deltas 50\n@sleep 1\n@deltas 50\n@text the-end")
        await a.wait_text(session, "tok49")
        await b.call("session/load", place(session, s.work))
        assert (await a.answer_to(id_))["result"]["stopReason"] == "end_turn"
        await b.wait_text(session, "the-end")
        assert a.text(session) == b.text(session)
        shown = len(b.updates(session, "user_message_chunk"))
        await a.prompt(session, "@text second")
        await b.wait_text(session, "second")
        echoes = b.updates(session, "user_message_chunk")[shown:]
        assert [u["content"]["text"] for u in echoes] == ["@text second"]


async def test_the_first_answer_to_a_permission_counts_and_the_others_are_withdrawn(s: Shared) -> None:
    async with (
        s.client(answer_permission=None) as a,
        s.client(answer_permission=None) as b,
    ):
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        await b.call("session/load", place(session, s.work))
        id_ = await a.begin_prompt(session, '@tool bash {"command": "echo x > x.txt"}\n@text end')
        asked_a = await a.wait_for(lambda m: m.get("method") == "session/request_permission")
        asked_b = await b.wait_for(lambda m: m.get("method") == "session/request_permission")
        await b.respond(asked_b, permission(asked_b, "allow_once"))
        assert (await a.answer_to(id_))["result"]["stopReason"] == "end_turn"
        withdrawn = await a.wait_for(lambda m: m.get("method") == "$/cancel_request")
        assert withdrawn["params"]["requestId"] == asked_a["id"]
        assert (s.work / "x.txt").read_text() == "x\n"


async def test_a_turn_outlives_its_client_and_its_permission_waits_for_the_next(s: Shared) -> None:
    async with s.client(answer_permission=None) as a:
        await a.initialize()
        session = await a.new_session(s.work)
        await a.begin_prompt(session, '@tool bash {"command": "echo y > y.txt"}\n@text the-end')
        await a.wait_for(lambda m: m.get("method") == "session/request_permission")
        a.process.send_signal(signal.SIGKILL)
        await a.process.wait()
    async with s.client(answer_permission="allow_once") as b:
        await b.initialize()
        await b.call("session/load", place(session, s.work))
        await b.wait_text(session, "the-end")
        assert (s.work / "y.txt").read_text() == "y\n"


async def test_a_second_shared_agent_says_so_and_ends(s: Shared) -> None:
    second = await s.run("serve")
    assert second.returncode == 1
    assert b"runs already" in second.stderr
    assert str(s.process.pid).encode() in second.stderr
