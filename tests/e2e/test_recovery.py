"""An interrupted turn goes on: whatever point a worker dies at, one answer, and no effect twice."""

from __future__ import annotations

import itertools
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.client import permission
from tests.e2e.conftest import APPENDS, FAULTS
from tests.e2e.rig import faults, rig, running_command, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

FAILING_WRITES = [
    f"{action}@journal.{step}#{n}"
    for action, (n, step) in zip(
        itertools.cycle(("enospc", "eio", "erofs")),
        itertools.product(range(1, APPENDS + 1), ("append", "written")),
        strict=False,
    )
]
"""Each of both steps with each error, and each record with both."""


@pytest.mark.parametrize(
    "steps",
    [
        ("journal.append", "journal.synced", "turn"),
        # What is written and not yet synced outlives a process, so this differs from the others in little.
        pytest.param(("journal.written",), marks=pytest.mark.chaos),
    ],
)
async def test_a_kill_at_any_boundary_of_the_history_costs_nothing(
    faulty: Rig, steps: tuple[str, ...]
) -> None:
    r = faulty
    for fault in [fault for fault in FAULTS if fault.startswith(tuple(f"kill@{step}" for step in steps))]:
        session = await r.client.new_session(r.work)
        ran = r.work / f"ran-{fault}"
        armed = r.arm(fault)
        id_ = await r.client.begin_prompt(
            session,
            f'@text before\n@tool bash {{"command": "echo run >> \'{ran}\'"}}\n@deltas 5\n@text the-end',
        )
        answer = await r.client.answer_to(id_)
        assert not armed.exists(), f"{fault} was not reached"
        assert answer["result"]["stopReason"] == "end_turn", fault
        assert len(r.client.answers(id_)) == 1, fault
        assert r.client.text(session).rstrip().endswith("the-end"), fault
        # A kill between start and result leaves it open whether it ran: it is told, never run twice.
        assert not ran.exists() or ran.read_text() == "run\n", fault
        assert set(r.statuses(session).values()) <= {"completed", "failed"}, fault
        kinds = [record["kind"] for record in r.records(session)]
        assert kinds.count("user") == 1, fault
        assert kinds.count("turn_end") == 1, fault
        assert (await r.client.prompt(session, "@text next"))["result"]["stopReason"] == "end_turn", fault


async def test_a_kill_while_the_answer_streams_begins_a_new_message(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    id_ = await r.client.begin_prompt(session, "@deltas 10\n@sleep 1\n@text the-end")
    await r.client.wait_text(session, "tok9")
    old = {u["messageId"] for u in r.client.updates(session, "agent_message_chunk")}
    r.kill_worker(session)
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    chunks = r.client.updates(session, "agent_message_chunk")
    assert next(u["messageId"] for u in chunks if "the-end" in u["content"]["text"]) not in old
    assert any("restarted" in u["content"]["text"] for u in chunks)
    assert [record["kind"] for record in r.records(session)] == ["user", "assistant", "turn_end"]


async def test_a_kill_mid_tool_does_not_run_the_tool_again(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    nap = f"sleep {os.getpid()}"
    command = f'@tool bash {{"command": "echo two >> two.txt; {nap}"}}'
    id_ = await r.client.begin_prompt(session, f"{command}\n@text told")
    await until(lambda: bool(running_command(nap)))
    r.kill_worker(session)
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    assert (r.work / "two.txt").read_text() == "two\n"
    assert "interrupt" in r.asked()
    assert list(r.statuses(session).values()) == ["failed"]
    await until(lambda: not running_command(nap))


async def test_an_interrupted_tool_asks_again_until_the_turn_ends(r: Rig) -> None:
    r.client.answer_permission = "allow_always"
    session = await r.client.new_session(r.work)
    await r.client.prompt(session, '@tool bash {"command": "true"}')
    asked = _permissions(r)
    nap = f"sleep {os.getpid() + 100_000}"
    id_ = await r.client.begin_prompt(
        session,
        f'@tool bash {{"command": "{nap}"}}\n@text so\n@tool bash {{"command": "echo again"}}\n@text end',
    )
    await until(lambda: bool(running_command(nap)))
    assert _permissions(r) == asked, "an always did not hold"
    r.kill_worker(session)
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    assert _permissions(r) == asked + 1
    await r.client.prompt(session, '@tool bash {"command": "true"}')
    assert _permissions(r) == asked + 1, "the grant did not come back with the next turn"


def _permissions(r: Rig) -> int:
    return sum(m.get("method") == "session/request_permission" for m in r.client.messages)


async def test_an_open_permission_outlives_the_worker_and_is_asked_once(r: Rig) -> None:
    r.client.answer_permission = None
    session = await r.client.new_session(r.work)
    id_ = await r.client.begin_prompt(session, '@tool bash {"command": "echo p >> p.txt"}\n@text end')
    request = await r.client.wait_for(lambda m: m.get("method") == "session/request_permission")
    old = r.kill_worker(session)
    await until(lambda: (w := r.client.worker(session)) is not None and w.pid != old)
    assert list(r.statuses(session).values()) == ["pending"]
    assert not (r.work / "p.txt").exists()
    await r.client.respond(request, permission(request, "allow_once"))
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    assert (r.work / "p.txt").read_text() == "p\n"
    assert _permissions(r) == 1


async def test_a_permission_answered_while_no_worker_lives_is_not_lost(r: Rig) -> None:
    r.client.answer_permission = None
    session = await r.client.new_session(r.work)
    id_ = await r.client.begin_prompt(session, '@tool bash {"command": "echo p >> p.txt"}\n@text end')
    request = await r.client.wait_for(lambda m: m.get("method") == "session/request_permission")
    r.kill_worker(session)
    await r.client.respond(request, permission(request, "allow_once"))
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    assert (r.work / "p.txt").read_text() == "p\n"


async def test_a_kill_while_loading_replays_each_update_once(faulty: Rig) -> None:
    r = faulty
    session = await r.client.new_session(r.work)
    for i in range(5):
        await r.client.prompt(session, f"@text answer-{i}")
    place = {"sessionId": session, "cwd": str(r.work), "mcpServers": []}
    for fault in ("kill@replay.begin", "kill@journal.read"):
        await r.client.call("session/close", {"sessionId": session})
        armed = r.arm(fault)
        seen = len(r.client.updates(session))
        await r.client.call("session/load", place)
        replayed = r.client.updates(session)[seen:]
        texts = [u["content"]["text"] for u in replayed if u["sessionUpdate"] == "agent_message_chunk"]
        assert texts == [f"answer-{i}" for i in range(5)], fault
        assert not armed.exists()


async def test_with_recover_report_the_turn_is_answered_with_the_reason(tmp_path: Path) -> None:
    async with rig(tmp_path, settings={"recover": "report"}) as r:
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, "@deltas 5\n@sleep 20\n@text no")
        await r.client.wait_text(session, "tok4")
        r.kill_worker(session)
        error = (await r.client.answer_to(id_))["error"]
        assert error["code"] == -32603
        assert "SIGKILL" in error["data"]["reason"]
        assert (await r.client.prompt(session, "@text again"))["result"]["stopReason"] == "end_turn"
        assert "tok4" not in r.asked()


async def test_a_worker_that_does_not_run_is_found_and_killed_and_its_turn_goes_on(tmp_path: Path) -> None:
    settings = {"unresponsive_after": 1.0, "kill_after_in_turn": 2.0}
    blocks = ["gil=60@turn.begin", "stall=60@turn.begin"]
    async with rig(tmp_path, settings=settings, env=faults(tmp_path, blocks)) as r:
        stopped = await r.client.new_session(r.work)
        asked = [await r.client.begin_prompt(stopped, "@deltas 10\n@sleep 1\n@text back")]
        await r.client.wait_text(stopped, "tok9")
        r.kill_worker(stopped, signal.SIGSTOP)
        blocked = []
        for block in blocks:
            blocked.append(await r.client.new_session(r.work))
            armed = r.arm(block)
            asked.append(await r.client.begin_prompt(blocked[-1], "@text back"))
            await until(lambda armed=armed: not armed.exists())  # type: ignore[misc]
        for session, id_ in zip([stopped, *blocked], asked, strict=True):
            assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
            assert "back" in r.client.text(session)
        for session in blocked:  # and its stacks are kept
            report = r.sessions / session / "crash-1.txt"
            await until(lambda report=report: report.exists() and "stacks" in report.read_text())  # type: ignore[misc]
            text = report.read_text()
            assert "did not answer" in text
            assert "faults.py" in text, "the stacks do not show where it hung"


async def test_a_session_that_cannot_live_fails_and_load_revives_it(tmp_path: Path) -> None:
    deaths = ",".join(f"kill@turn.begin:{tmp_path / name}" for name in "abcd")
    async with rig(tmp_path, env={"IAC_CODE_FAULTS": deaths}) as r:
        other = await r.client.new_session(r.work)
        session = await r.client.new_session(r.work)
        for name in "abcd":
            (tmp_path / name).touch()
        error = (await r.client.prompt(session, "@text never"))["error"]
        assert error["code"] == -32603
        assert "died" in error["data"]["details"]
        assert (await r.client.prompt(session, "@text still"))["error"]["code"] == -32603
        assert (await r.client.prompt(other, "@text fine"))["result"]["stopReason"] == "end_turn"
        await r.client.call("session/load", {"sessionId": session, "cwd": str(r.work), "mcpServers": []})
        assert (await r.client.prompt(session, "@text revived"))["result"]["stopReason"] == "end_turn"


async def test_a_worker_that_does_not_boot_is_an_error_not_a_loop(faulty: Rig) -> None:
    r = faulty
    session = await r.client.new_session(r.work)
    r.arm("kill@worker.start")
    error = (await r.client.prompt(session, "@text no"))["error"]
    assert error["data"]["reason"] == "boot"
    assert (await r.client.prompt(session, "@text yes"))["result"]["stopReason"] == "end_turn"


async def test_a_write_that_fails_ends_the_turn_and_publishes_nothing_unrecorded(faulty: Rig) -> None:
    r = faulty
    for fault in FAILING_WRITES:
        session = await r.client.new_session(r.work)
        armed = r.arm(fault)
        prompt = '@text a\n@tool bash {"command": "true"}\n@text the-end'
        answer = await r.client.prompt(session, prompt)
        assert not armed.exists(), fault
        assert answer["error"]["code"] == -32603, fault
        assert "history" in answer["error"]["data"]["details"], fault
        assert set(r.statuses(session).values()) <= {"completed", "failed"}, fault
        again = await r.client.prompt(session, "@text works-again")
        assert again["result"]["stopReason"] == "end_turn", fault
        assert "works-again" in r.client.text(session), fault


async def test_lines_that_cannot_be_read_are_set_aside_and_told_to_who_loads(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    await r.client.prompt(session, "@text before")
    await r.client.call("session/close", {"sessionId": session})
    with (r.sessions / session / "history.jsonl").open("ab") as history:
        history.write(b"\x00\xff no record\n" + b'{"epoch":' * 1000 + b"\n")
    place = {"sessionId": session, "cwd": str(r.work), "mcpServers": []}
    await r.client.call("session/load", place)
    assert r.client.text(session).count("could not be read") == 1
    await r.client.call("session/load", place)
    assert r.client.text(session).count("could not be read") == 1
    assert (await r.client.prompt(session, "@text after"))["result"]["stopReason"] == "end_turn"
    assert "before" in r.asked()


async def test_a_turn_that_no_worker_had_is_not_said_to_be_interrupted(tmp_path: Path) -> None:
    async with rig(tmp_path, settings={"cancel_within": 0.5}) as r:
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, "@deltas 3\n@sleep 60")
        await r.client.wait_text(session, "tok2")
        r.kill_worker(session, signal.SIGSTOP)
        await r.client.notify("session/cancel", {"sessionId": session})
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
        assert (await r.client.prompt(session, "@text fresh"))["result"]["stopReason"] == "end_turn"
        assert "restarted" not in r.client.text(session)


async def test_setting_an_option_restores_a_session_no_further_than_a_prompt_does(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session, closed = await r.client.new_session(r.work), await r.client.new_session(r.work)
        for id_ in (session, closed):
            await r.client.call("session/set_mode", {"sessionId": id_, "modeId": "bypass_permissions"})
        await r.client.call("session/close", {"sessionId": closed})
    async with rig(tmp_path, answer_permission="reject_once") as r:
        thinking = {"configId": "thinking", "value": "low"}
        answer = await r.client.request("session/set_config_option", {"sessionId": closed, **thinking})
        assert answer["error"]["data"]["session_id"] == "Session not found"
        await r.client.call("session/set_config_option", {"sessionId": session, **thinking})
        await r.client.prompt(session, '@tool bash {"command": "true"}\n@text end')
        assert _permissions(r) == 1
