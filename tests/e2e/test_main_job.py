"""The main job, end to end: sessions in processes of their own, and what becomes of them when one dies."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.e2e.client import start_agent
from tests.e2e.rig import rig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio


async def test_an_answer_streams_whole_with_usage(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    answer = await r.client.prompt(session, "@usage 25 7\n@deltas 300")
    assert answer["result"]["stopReason"] == "end_turn"
    assert answer["result"]["usage"] == {"inputTokens": 25, "outputTokens": 7, "totalTokens": 32}
    assert r.client.text(session) == "".join(f"tok{i} " for i in range(300))


async def test_two_sessions_live_in_two_processes_and_a_kill_of_one_is_local(r: Rig) -> None:
    a, b = await r.client.new_session(r.work), await r.client.new_session(r.work)
    await r.client.prompt(a, "@text remember-me")
    in_a = await r.client.begin_prompt(a, "@deltas 20\n@sleep 1\n@text finished-a")
    in_b = await r.client.begin_prompt(b, "\n".join(["@deltas 20\n@sleep 0.1"] * 10))
    await r.client.wait_text(a, "tok19")
    await r.client.wait_text(b, "tok19")
    pid_b = r.worker_pid(b)
    killed = r.kill_worker(a)
    assert (await r.client.answer_to(in_b))["result"]["stopReason"] == "end_turn"
    assert r.client.text(b) == "".join(f"tok{i} " for i in range(20)) * 10
    assert r.worker_pid(b) == pid_b
    assert (await r.client.answer_to(in_a))["result"]["stopReason"] == "end_turn"
    assert "finished-a" in r.client.text(a)
    assert r.worker_pid(a) != killed
    await r.client.prompt(a, "@text after")
    assert "remember-me" in r.asked()
    assert len(r.client.answers(in_a)) == 1


async def test_a_session_is_on_disk_before_it_is_answered(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        os.killpg(r.client.process.pid, 9)
    meta = json.loads((r.sessions / session / "meta.json").read_bytes())
    assert meta["session_id"] == session


async def test_history_survives_the_front(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@think hm\n@text first answer\n@tool list_files {}\n@text listed")
        r.client.process.kill()
        await r.client.process.wait()
    async with rig(tmp_path) as r:
        place = {"sessionId": session, "cwd": str(r.work), "mcpServers": []}
        resumed = await r.client.call("session/resume", place)
        assert {"modes", "models", "configOptions"} <= resumed.keys()
        assert "sessionId" not in resumed
        assert r.client.text(session) == ""
        await r.client.call("session/load", place)
        kinds = [u["sessionUpdate"] for u in r.client.updates(session)]
        assert (
            kinds.index("user_message_chunk") < kinds.index("agent_thought_chunk") < kinds.index("tool_call")
        )
        assert "first answer" in r.client.text(session)
        assert set(r.statuses(session).values()) == {"completed"}
        await r.client.prompt(session, "@text more")
        assert "first answer" in r.asked()
        assert "tool_result" in r.asked()


async def test_a_fork_is_a_session_of_its_own(r: Rig) -> None:
    parent = await r.client.new_session(r.work)
    await r.client.prompt(parent, "@text shared-past")
    place = {"sessionId": parent, "cwd": str(r.work), "mcpServers": []}
    fork = (await r.client.call("session/fork", place))["sessionId"]
    await r.client.prompt(parent, "@text only-parent")
    await r.client.prompt(fork, "@text forked")
    assert "shared-past" in r.asked()
    assert "only-parent" not in r.asked()


async def test_a_closed_session_answers_no_prompt_until_it_is_loaded(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    await r.client.prompt(session, "@text kept")
    assert await r.client.call("session/close", {"sessionId": session}) == {}
    for unknown in (session, "00000000-0000-4000-8000-000000000000", "../..", "a/b", "x" * 65, ""):
        error = (await r.client.prompt(unknown, "@text no"))["error"]
        assert error["code"] == -32602
        assert error["data"]["session_id"] == "Session not found"
    await r.client.call("session/load", {"sessionId": session, "cwd": str(r.work), "mcpServers": []})
    assert (await r.client.prompt(session, "@text again"))["result"]["stopReason"] == "end_turn"
    assert "kept" in r.asked()


async def test_a_session_held_by_another_process_is_refused_with_its_pid(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    async with start_agent(r.home, cwd=r.work) as other:
        await other.initialize()
        place = {"sessionId": session, "cwd": str(r.work), "mcpServers": []}
        error = (await other.request("session/load", place))["error"]
        assert error["code"] == -32603
        assert error["data"]["session_id"] == session
        assert error["data"]["pid"] == r.client.process.pid
        assert str(r.client.process.pid) in error["data"]["details"]
    assert (await r.client.prompt(session, "@text still mine"))["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize(
    ("cwd", "problem"),
    [("relative", "absolute"), ("/no/such/folder", "does not exist"), ("/etc/hostname", "not a folder")],
)
async def test_a_session_needs_a_folder(r: Rig, cwd: str, problem: str) -> None:
    error = (await r.client.request("session/new", {"cwd": cwd}))["error"]
    assert error["code"] == -32602
    assert problem in error["data"]["cwd"]


async def test_bad_lines_are_answered_and_nothing_else_happens(r: Rig) -> None:
    client = r.client
    for line, code, id_ in (
        (b"{nope", -32700, None),
        (b"[]", -32600, None),
        (b"42", -32600, None),
        (b"null", -32600, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"session/list"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":900,"method":"no/such"}', -32601, 900),
        (b'{"jsonrpc":"2.0","id":"901","method":"session/prompt","params":{}}', -32602, "901"),
        (b'{"jsonrpc":"2.0","id":902,"method":"session/list","params":[1]}', -32602, 902),
    ):
        seen = len(client.messages)
        await client.send_raw(line + b"\n")
        await client.call("session/list", {})
        (answer,) = [m for m in client.messages[seen:] if "error" in m]
        assert (answer["error"]["code"], answer["id"]) == (code, id_), line[:60]
    for ignored in (
        b"",
        b"   ",
        b'{"jsonrpc":"2.0","method":"no/such"}',
        b'{"jsonrpc":"2.0","method":"session/prompt","params":{}}',
        b'{"id":null,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":77777,"result":{}}',
    ):
        seen = len(client.messages)
        await client.send_raw(ignored + b"\r\n")
        await client.call("session/list", {})
        assert len(client.messages) == seen + 1, ignored


async def test_text_that_no_client_should_send_is_answered_all_the_same(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    await r.client.send_raw(
        b'{"jsonrpc":"2.0","id":"odd","method":"session/prompt","params":{"sessionId":"%b",'
        b'"prompt":[{"type":"text","text":"half \\ud83d and nul \\u0000"}]}}\n' % session.encode()
    )
    assert (await r.client.answer_to("odd"))["result"]["stopReason"] == "end_turn"


async def test_prompt_at_once_after_new_waits_for_the_worker(tmp_path: Path) -> None:
    async with start_agent(tmp_path) as client:
        await client.initialize()
        session = await client.new_session(tmp_path)
        answer = await client.prompt(session, "say hello there")
        assert answer["result"]["stopReason"] == "end_turn"
        assert "hello there" in client.text(session)


async def test_cancel_sent_with_the_prompt_is_not_lost(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    first = await r.client.begin_prompt(session, "@sleep 30\n@text no")
    await r.client.notify("session/cancel", {"sessionId": session})
    with anyio.fail_after(20):
        assert (await r.client.answer_to(first))["result"]["stopReason"] == "cancelled"
    assert (await r.client.prompt(session, "@text next"))["result"]["stopReason"] == "end_turn"
