"""Listing, titles, load, resume, fork, close and delete of sessions in one agent (protocol §1, §3, §8)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

NOT_FOUND = {"code": -32602, "message": "Invalid params", "data": {"session_id": "Session not found"}}


def place(session: str, cwd: Path, **more: Any) -> dict[str, Any]:
    """The params of load, resume and fork."""
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": [], **more}


def said(updates: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The updates of a conversation, text merged: kind and text, or kind and status of a call."""
    found: list[tuple[str, str]] = []
    for update in updates:
        kind = update["sessionUpdate"]
        if kind.endswith("_chunk"):
            text = update["content"]["text"]
            if found and found[-1][0] == kind:
                found[-1] = (kind, found[-1][1] + text)
            else:
                found.append((kind, text))
        elif kind == "tool_call":
            found.append((kind, update["status"]))
    return found


async def test_the_list_is_filtered_by_folder_and_paged_newest_first(
    r: Rig, work: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(work)
    made = [await r.client.new_session(work) for _ in range(53)]
    first = await r.client.call("session/list", {"cwd": str(tmp_path / "link")})
    second = await r.client.call("sessions/list", {"cwd": str(work), "cursor": first["nextCursor"]})
    assert "nextCursor" not in second
    listed = [info["sessionId"] for info in (*first["sessions"], *second["sessions"])]
    assert listed == made[::-1]
    assert {info["cwd"] for info in first["sessions"]} == {str(work)}
    assert (await r.client.call("session/list", {"cwd": str(tmp_path)}))["sessions"] == []
    everywhere = await r.client.call("session/list", {})
    assert [info["sessionId"] for info in everywhere["sessions"]][:50] == made[:-51:-1]
    assert await r.client.call("session/list", {"cwd": None, "cursor": None}) == everywhere
    for bad in ({"cursor": "nonsense"}, {"cursor": 7}, {"cwd": "relative"}, {"cwd": 7}):
        error = (await r.client.request("session/list", bad))["error"]
        assert error["code"] == -32602
        assert bad.keys() <= error["data"].keys()


async def test_the_first_prompt_gives_the_title_and_each_one_the_time(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)

    async def listed() -> dict[str, Any]:
        (info,) = (await r.client.call("session/list", {"cwd": str(work)}))["sessions"]
        return dict(info)

    before = await listed()
    assert "title" not in before
    await r.client.prompt(session, "Explain the modules here.\n@text first")
    (told,) = r.client.updates(session, "session_info_update")
    titled = await listed()
    assert told["title"] == titled["title"] == "Explain the modules here."
    time = datetime.fromisoformat(told["updatedAt"])
    assert abs(datetime.now(UTC) - time) < timedelta(minutes=1)
    await r.client.prompt(session, "Another thing.\n@text second")
    assert len(r.client.updates(session, "session_info_update")) == 1
    assert (await listed())["title"] == titled["title"]
    assert (await listed())["updatedAt"] >= titled["updatedAt"] >= before["updatedAt"]


async def test_a_load_replays_everything_in_order_before_its_answer(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    await r.client.prompt(
        session,
        "one\n@think deep\n@text first\n@tool list_files {}\n"
        '@text between\n@tool read_file {"path": "missing"}\n@text last',
    )
    await r.client.prompt(session, "/compact")
    await r.client.prompt(session, "two\n@text after")
    live = said(r.client.updates(session))
    seen = len(r.client.messages)
    id_ = await r.client.begin("session/load", place(session, work))
    await r.client.answer_to(id_)
    fresh = r.client.messages[seen:]
    answered = next(i for i, message in enumerate(fresh) if message.get("id") == id_)
    replayed = [m["params"]["update"] for m in fresh[:answered] if m.get("method") == "session/update"]
    told = said(replayed)
    assert [kind for kind, _ in told][:7] == [
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call",
        "agent_message_chunk",
        "tool_call",
        "agent_message_chunk",
    ]
    assert [status for kind, status in told if kind == "tool_call"] == ["completed", "failed"]
    typed = [text.split("\n")[0] for kind, text in told if kind == "user_message_chunk"]
    assert typed == ["one", "/compact", "two"]
    agent = "".join(text for kind, text in told if kind == "agent_message_chunk")
    assert agent == "".join(text for kind, text in live if kind == "agent_message_chunk")
    for call in (update for update in replayed if update["sessionUpdate"] == "tool_call"):
        assert call["rawInput"] is not None
        assert call["rawOutput"]
        assert call["content"]
    # The same a second time; nothing of it after the answer.
    seen = len(r.client.messages)
    await r.client.call("session/load", place(session, work))
    again = [m["params"]["update"] for m in r.client.messages[seen:] if m.get("method") == "session/update"]
    assert said(again) == told


async def test_a_resume_replays_nothing(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    await r.client.prompt(session, "@text spoken")
    seen = len(r.client.updates(session))
    assert "sessionId" not in await r.client.call("session/resume", place(session, work))
    await r.client.prompt(session, "@text more")
    fresh = r.client.updates(session)[seen:]
    assert said(fresh) == [("agent_message_chunk", "more")]
    assert "spoken" in r.asked()


async def test_a_load_of_a_live_session_disturbs_no_turn(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    turn = await r.client.begin_prompt(session, "@text past\n@deltas 300\n@sleep 0.5\n@text the-end")
    await r.client.wait_text(session, "tok20 ")
    for method in ("session/load", "session/resume", "session/load"):
        await r.client.call(method, place(session, work))
    assert (await r.client.answer_to(turn))["result"]["stopReason"] == "end_turn"
    assert len(r.client.answers(turn)) == 1
    assert r.client.text(session).endswith("tok299 the-end")
    (reply,) = [record for record in r.records(session) if record["kind"] == "assistant"]
    assert (
        "".join(block["text"] for block in reply["blocks"])
        == "past" + "".join(f"tok{n} " for n in range(300)) + "the-end"
    )


async def test_a_fork_in_mid_turn_has_the_last_complete_turn(r: Rig, work: Path, tmp_path: Path) -> None:
    session = await r.client.new_session(work)
    await r.client.prompt(session, "@text complete")
    turn = await r.client.begin_prompt(session, "the open one\n@deltas 50\n@sleep 30")
    await r.client.wait_text(session, "tok20 ")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    fork = (await r.client.call("session/fork", place(session, elsewhere)))["sessionId"]
    assert fork != session
    assert "complete" not in r.client.text(fork), "a fork replays nothing"
    await r.client.call("session/load", place(fork, elsewhere))
    assert said(r.client.updates(fork)) == [
        ("user_message_chunk", "@text complete"),
        ("agent_message_chunk", "complete"),
    ]
    await r.client.notify("session/cancel", {"sessionId": session})
    assert (await r.client.answer_to(turn))["result"]["stopReason"] == "cancelled"
    assert (await r.client.prompt(fork, "@text on its own"))["result"]["stopReason"] == "end_turn"
    assert "the open one" not in r.asked()
    await r.client.call("session/delete", {"sessionId": session})
    assert (await r.client.prompt(fork, "@text still there"))["result"]["stopReason"] == "end_turn"
    (listed,) = (await r.client.call("session/list", {"cwd": str(elsewhere)}))["sessions"]
    assert listed["sessionId"] == fork


async def test_a_close_cancels_and_frees_and_a_load_reopens(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    turn = await r.client.begin_prompt(session, "@text kept\n@sleep 30")
    waiting = await r.client.begin_prompt(session, "@text never")
    await r.client.wait_text(session, "kept")
    worker = r.client.worker(session)
    assert worker is not None
    assert await r.client.call("session/close", {"sessionId": session}) == {}
    for id_ in (turn, waiting):
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
    assert not worker.is_running()
    assert (await r.client.prompt(session, "@text no"))["error"] == NOT_FOUND
    assert session in json.dumps(await r.client.call("session/list", {"cwd": str(work)}))
    for method in ("session/load", "session/resume"):
        await r.client.call(method, place(session, work))
        assert (await r.client.prompt(session, "@text again"))["result"]["stopReason"] == "end_turn"
        assert "kept" in r.asked()
        await r.client.call("session/close", {"sessionId": session})


async def test_a_deleted_session_is_gone_and_an_unknown_one_is_no_error(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    turn = await r.client.begin_prompt(session, "@text x\n@sleep 30")
    await r.client.wait_text(session, "x")
    assert await r.client.call("session/delete", {"sessionId": session}) == {}
    assert (await r.client.answer_to(turn))["result"]["stopReason"] == "cancelled"
    for unknown in (session, "00000000-0000-4000-8000-000000000000", "../..", ""):
        assert await r.client.call("session/delete", {"sessionId": unknown}) == {}
    assert not (r.sessions / session).exists()
    assert (await r.client.request("session/load", place(session, work)))["error"] == NOT_FOUND
    assert (await r.client.prompt(session, "@text no"))["error"] == NOT_FOUND
    assert (await r.client.call("session/list", {"cwd": str(work)}))["sessions"] == []


async def test_additional_directories_are_the_sessions_own(r: Rig, work: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "there.txt").write_text("from the extra folder")
    made = await r.client.call("session/new", {"cwd": str(work), "additionalDirectories": [str(extra)]})
    session = made["sessionId"]
    seen = len(r.client.messages)
    read = f'@tool read_file {{"path": "{extra}/there.txt"}}'
    await r.client.prompt(session, read)
    assert "from the extra folder" in r.asked()
    assert not [m for m in r.client.messages[seen:] if m.get("method") == "session/request_permission"]
    (listed,) = (await r.client.call("session/list", {"cwd": str(work)}))["sessions"]
    assert listed["additionalDirectories"] == [str(extra)]
    await r.client.call("session/close", {"sessionId": session})
    await r.client.call("session/resume", place(session, work))
    seen = len(r.client.messages)
    await r.client.prompt(session, read)
    assert not [m for m in r.client.messages[seen:] if m.get("method") == "session/request_permission"]
    for bad in (["relative"], [7], "x", [""]):
        error = (await r.client.request("session/new", {"cwd": str(work), "additionalDirectories": bad}))[
            "error"
        ]
        assert error["code"] == -32602
        assert any(field.startswith("additionalDirectories") for field in error["data"])


async def test_a_session_keeps_its_folder_while_that_is_there_and_moves_when_it_is_gone(
    r: Rig, work: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    session = await r.client.new_session(work)
    await r.client.prompt(session, "@text past")
    for method in ("session/load", "session/resume"):
        error = (await r.client.request(method, place(session, other)))["error"]
        assert error["code"] == -32602
        assert str(work) in error["data"]["cwd"]
        for bad, problem in (
            ("/no/such/folder", "exist"),
            ("relative", "absolute"),
            (str(tmp_path / "f"), "folder"),
        ):
            (tmp_path / "f").write_text("")
            error = (await r.client.request(method, {**place(session, other), "cwd": bad}))["error"]
            assert error["code"] == -32602
            assert problem in error["data"]["cwd"]
    assert (await r.client.prompt(session, "@text undisturbed"))["result"]["stopReason"] == "end_turn"
    await r.client.call("session/close", {"sessionId": session})
    await anyio.Path(work).rename(tmp_path / "moved")
    await r.client.call("session/resume", place(session, tmp_path / "moved"))
    (listed,) = (await r.client.call("session/list", {"cwd": str(tmp_path / "moved")}))["sessions"]
    assert listed["sessionId"] == session
    await r.client.prompt(session, '@tool write_file {"path": "here", "content": ""}\n@text done')
    assert (tmp_path / "moved" / "here").exists()
    # Also while it is live: the folder is renamed under it.
    await anyio.Path(tmp_path / "moved").rename(tmp_path / "again")
    await r.client.call("session/load", place(session, tmp_path / "again"))
    await r.client.prompt(session, '@tool write_file {"path": "too", "content": ""}\n@text done')
    assert (tmp_path / "again" / "too").exists()
