"""Several clients of one shared agent: what each sees, what each is asked, and how each may leave."""

from __future__ import annotations

import re
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.e2e.client import permission
from tests.e2e.rig import until
from tests.e2e.shared_agent import COMMAND, place, shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.client import RawClient
    from tests.e2e.shared_agent import Shared

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(150)]
READS: dict[str, Any] = {"fs": {"readTextFile": True}}


def _longer(client: RawClient, session: str, token: re.Pattern[str], than: int) -> bool:
    return len(token.findall(client.text(session))) > than


def asked(client: RawClient, method: str = "session/request_permission") -> list[dict[str, Any]]:
    return [message for message in client.messages if message.get("method") == method]


async def test_loads_in_mid_stream_join_replay_and_live_updates_without_a_gap_or_a_double(s: Shared) -> None:
    async with s.client() as a, s.client() as b, s.client() as c:
        for client in (a, b, c):
            await client.initialize()
        session = await a.new_session(s.work)
        await a.prompt(session, "@text before")
        first = await a.begin_prompt(session, "@deltas 400\n@sleep 0.2\n@deltas 400\n@sleep 0.2\n@deltas 400")
        waiting = await a.begin_prompt(session, "@text from-the-second-prompt")
        await a.wait_until(lambda: bool(a.text(session)))
        whole = re.compile(r"tok(\d+) ")
        for client, after in ((b, 0), (c, 300)):
            await a.wait_until(partial(_longer, a, session, whole, after))
            await client.call("session/load", place(session, s.work))
        await a.answer_to(first)
        await a.answer_to(waiting)
        for client in (b, c):
            await client.wait_text(session, "from-the-second-prompt")
            assert client.text(session) == a.text(session)
            # Recorded before the load, running while it came, and waiting for its turn: each shown once.
            typed = [u["content"]["text"] for u in client.updates(session, "user_message_chunk")]
            assert sorted(text[:12] for text in typed) == ["@deltas 400\n", "@text before", "@text from-t"]
        # A load of one's own session in mid-stream is a whole replay, and then goes on.
        again = await b.begin_prompt(session, "@deltas 300\n@sleep 0.3\n@deltas 300")
        start = len(b.messages)
        await b.wait_until(lambda: len(b.updates(session)) > start)
        loaded = await b.begin("session/load", place(session, s.work))
        before = len(b.messages)
        await b.answer_to(loaded)
        await b.answer_to(again)
        replayed = "".join(
            m["params"]["update"]["content"]["text"]
            for m in b.messages[before:]
            if m.get("method") == "session/update"
            and m["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        )
        await c.wait_until(lambda: c.text(session) == a.text(session))
        assert replayed.endswith(a.text(session))


async def test_only_the_client_that_prompted_is_asked_for_files_and_its_silence_costs_once(s: Shared) -> None:
    async with s.client() as a, s.client() as b, s.client() as plain:
        (s.work / "a.txt").write_text("on disk\n")
        for client in (a, b):
            await client.initialize(**READS)
        await plain.initialize()
        a.answer_request = lambda method, _: (
            {"result": {"content": "unsaved of a\n"}} if "fs/" in method else None
        )
        b.answer_request = lambda method, _: None  # offers it, and never answers
        session = await a.new_session(s.work)
        for client in (b, plain):
            await client.call("session/load", place(session, s.work))
        read = '@tool read_file {"path": "a.txt"}\n@text read'
        await a.prompt(session, read)
        assert "unsaved of a" in str(s.double.requests[-1].body)
        assert len(asked(a, "fs/read_text_file")) == 1
        await plain.prompt(session, read)
        began = time.monotonic()
        for _ in range(3):
            await b.prompt(session, read)
        assert len(asked(b, "fs/read_text_file")) == 1
        assert time.monotonic() - began < 14, "each read waits for a client that did not answer the first"
        assert (len(asked(a, "fs/read_text_file")), len(asked(plain, "fs/read_text_file"))) == (1, 0)
        assert sum("did not answer within" in entry["message"] for entry in s.log()) == 1


async def test_a_client_that_vanishes_while_its_files_are_asked_for_holds_up_nothing(s: Shared) -> None:
    async with s.client() as b:
        (s.work / "a.txt").write_text("on disk\n")
        await b.initialize()
        async with s.client() as a:
            await a.initialize(**READS)
            session = await a.new_session(s.work)
            await b.call("session/load", place(session, s.work))
            read = '@tool read_file {"path": "a.txt"}'
            await a.begin_prompt(session, f"{read}\n@sleep 0.1\n{read}\n@text the-end")
            await a.wait_for(lambda m: m.get("method") == "fs/read_text_file")
            a.process.send_signal(signal.SIGKILL)
            await a.process.wait()
        await b.wait_text(session, "the-end")
        assert "on disk" in str(s.double.requests[-1].body)
        assert not asked(b, "fs/read_text_file")
        assert not s.logged("did not answer within")


async def test_a_close_by_one_detaches_it_and_the_last_one_closes(s: Shared) -> None:
    async with (
        s.client(answer_permission=None) as a,
        s.client(answer_permission=None) as b,
    ):
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        await b.call("session/load", place(session, s.work))
        id_ = await a.begin_prompt(session, '@tool bash {"command": "echo x > x.txt"}\n@text the-end')
        question = await a.wait_for(lambda m: m.get("method") == "session/request_permission")
        theirs = await b.wait_for(lambda m: m.get("method") == "session/request_permission")
        await a.call("session/close", {"sessionId": session})
        assert (await a.answer_to(id_))["result"]["stopReason"] == "cancelled"
        withdrawn = await a.wait_for(lambda m: m.get("method") == "$/cancel_request")
        assert withdrawn["params"]["requestId"] == question["id"]
        await a.respond(question, permission(question, "reject_once"))  # too late: it is not asked any more
        await b.respond(theirs, permission(theirs, "allow_once"))
        await b.wait_text(session, "the-end")
        assert (s.work / "x.txt").exists()
        assert "the-end" not in a.text(session)
        await b.call("session/close", {"sessionId": session})
        refused = await a.request(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        )
        assert refused["error"]["data"]["session_id"] == "Session not found"


async def test_two_prompt_at_once_and_one_cancels_the_others(s: Shared) -> None:
    async with s.client() as a, s.client() as b:
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        await b.call("session/load", place(session, s.work))
        first = await a.begin_prompt(session, "@text one\n@sleep 0.3\n@text one-ends")
        await b.wait_text(session, "one")
        second = await b.begin_prompt(session, "@text two\n@sleep 30\n@text never")
        assert (await a.answer_to(first))["result"]["stopReason"] == "end_turn"
        await a.wait_text(session, "two")
        third = await b.begin_prompt(session, "@text dropped")
        await a.wait_until(lambda: len(a.updates(session, "user_message_chunk")) == 2)
        await a.notify("session/cancel", {"sessionId": session})
        for id_ in (second, third):
            assert (await b.answer_to(id_))["result"]["stopReason"] == "cancelled"
        # $/cancel_request names a request of the client that sends it, whatever ids the others use.
        fourth = await b.begin_prompt(session, "@text four\n@sleep 0.5\n@text four-ends")
        await a.notify("$/cancel_request", {"requestId": fourth})
        assert (await b.answer_to(fourth))["result"]["stopReason"] == "end_turn"
        await a.wait_text(session, "four-ends")
        assert a.text(session) == b.text(session)


async def test_a_permission_that_nobody_comes_to_answer_is_denied(tmp_path: Path) -> None:
    async with shared(tmp_path, {"answer_within": 0.5, "hibernate_after": 0.5}) as s:
        async with s.client() as a:
            await a.initialize()
            session = await a.new_session(s.work)
            # Asked only when the client is gone already.
            await a.begin_prompt(session, '@sleep 1\n@tool bash {"command": "touch x"}\n@text the-end')
            await until(lambda: bool(s.double.requests))
        await until(lambda: "turn_end" in s.history(session))
        assert not (s.work / "x").exists()
        assert "Permission denied" in s.history(session)
        assert s.logged("no client came to answer")
        # Attached while it goes to sleep and sleeps: it is there, and wakes.
        async with s.client() as b, s.client() as c:
            await b.initialize()
            await c.initialize()
            for _ in range(2):
                await b.call("session/load", place(session, s.work))
                await until(lambda: not s.workers())
                await c.call("session/resume", place(session, s.work))
                await until(lambda: not s.workers())
            assert "the-end" in b.text(session)
            assert (await c.prompt(session, "@text awake"))["result"]["stopReason"] == "end_turn"
            await b.wait_text(session, "awake")


async def test_sessions_close_closes_a_live_session_for_all_and_says_what_that_cost(s: Shared) -> None:
    async with s.client() as a, s.client() as b:
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        await b.call("session/load", place(session, s.work))
        id_ = await a.begin_prompt(session, "@text kept\n@sleep 30\n@text never")
        await b.wait_text(session, "kept")
        held = await s.run("sessions", "rm", session)
        assert held.returncode == 1
        assert b"iac-code sessions close" in held.stderr
        closed = await s.run("sessions", "close", session)
        assert closed.returncode == 0, closed.stderr
        assert closed.stdout.decode() == (
            f"Closed session {session}: 1 prompt was cancelled; 2 clients had it.\n"
        )
        assert (await a.answer_to(id_))["result"]["stopReason"] == "cancelled"
        await b.wait_text(session, "iac-code sessions close")
        again = await s.run("sessions", "close", session)
        assert (again.returncode, b"not open" in again.stderr) == (1, True)
        assert (await s.run("sessions", "close", "nonsense")).returncode == 1
        listed = (await s.run("ps")).stdout.decode()
        assert "shared agent" in listed
        assert session not in listed
        await a.call("session/load", place(session, s.work))
        assert "kept" in a.text(session), "what was streamed before a cancel stays"
        assert (await a.prompt(session, "@text on"))["result"]["stopReason"] == "end_turn"


async def test_folders_that_a_second_client_adds_in_mid_turn_hold_from_the_next_turn_on(
    s: Shared, tmp_path: Path
) -> None:
    async with s.client(answer_permission="reject_once") as a, s.client() as b:
        other = tmp_path / "other"
        other.mkdir()
        (other / "f.txt").write_text("of the other folder\n")
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        running = await a.begin_prompt(session, "@text began\n@sleep 0.7\n@text ended")
        await a.wait_text(session, "began")
        await b.call("session/resume", {**place(session, s.work), "additionalDirectories": [str(other)]})
        assert (await a.answer_to(running))["result"]["stopReason"] == "end_turn"
        ended = await a.prompt(session, f'@tool read_file {{"path": "{other}/f.txt"}}\n@text read')
        assert ended["result"]["stopReason"] == "end_turn"
        assert "of the other folder" in str(s.double.requests[-1].body)
        assert not asked(a), "a read inside the session's folders runs unasked"


async def test_the_dialect_is_each_clients_own(s: Shared) -> None:
    async with (
        s.client(arguments=("--dialect", "acp"), answer_permission="allow_once") as bare,
        s.client() as both,
    ):
        await bare.initialize()
        await both.initialize()
        made = await bare.call("session/new", {"cwd": str(s.work), "mcpServers": []})
        assert "models" not in made
        session = made["sessionId"]
        await both.call("session/load", place(session, s.work))
        answer = await bare.prompt(session, '@tool bash {"command": "true"}\n@text hello')
        assert answer["result"].keys() == {"stopReason", "_meta"}
        await both.wait_text(session, "hello")
        assert bare.text(session) == both.text(session)
        reference = {"type", "text", "raw_input", "raw_output"}
        assert all(reference.isdisjoint(update) for update in bare.updates(session))
        assert all("type" in update for update in both.updates(session))


async def test_logging_out_and_in_disturbs_no_live_session(tmp_path: Path) -> None:
    async with shared(tmp_path) as s, s.client() as a:
        await a.initialize()
        session = await a.new_session(s.work)
        id_ = await a.begin_prompt(session, "@text one\n@sleep 1\n@text one-ends")
        await a.wait_text(session, "one")
        await a.call("logout", {})
        stored = await anyio.run_process([*COMMAND, "login"], input=b"sk-stored\n", env=s.whole, check=False)
        assert stored.returncode == 0, stored.stderr
        assert (await a.answer_to(id_))["result"]["stopReason"] == "end_turn"
        assert (await a.prompt(session, "@text two"))["result"]["stopReason"] == "end_turn"
