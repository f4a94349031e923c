"""Processes end when they should and only then: shutdown, murder of each part, workers that misbehave."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest
from anyio import to_thread

from tests.e2e.client import offline_environment, permission, start_agent
from tests.e2e.rig import rig, running_command

if TYPE_CHECKING:
    from tests.e2e.client import RawClient
    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

_numbers = itertools.count(os.getpid() * 100)


def titled(client: RawClient, title: str) -> list[psutil.Process]:
    """Live processes below the agent whose title begins so."""
    found = []
    for process in psutil.Process(client.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if " ".join(process.cmdline()).startswith(title):
                found.append(process)
    return found


def zygote(client: RawClient) -> psutil.Process:
    """The zygote that lives now."""
    (process,) = titled(client, "iac-code: zygote")
    return process


def below(client: RawClient) -> list[psutil.Process]:
    """The whole tree, the agent included."""
    front = psutil.Process(client.process.pid)
    return [front, *front.children(recursive=True)]


def alive(processes: list[psutil.Process]) -> list[str]:
    """Those that run, by title."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found


async def all_gone(processes: list[psutil.Process], within: float = 1.0) -> None:
    """They end within so many seconds."""
    deadline = time.monotonic() + within
    while left := await to_thread.run_sync(alive, processes):
        assert time.monotonic() < deadline, left
        await anyio.sleep(0.01)


async def until(condition: Any, within: float = 20.0) -> None:
    """Wait until it holds."""
    with anyio.fail_after(within):
        while not await to_thread.run_sync(condition):  # noqa: ASYNC110 - nothing tells of what is looked for
            await anyio.sleep(0.02)


async def escaping_tools(r: Rig, session: str) -> None:
    """A turn whose tool has put processes wherever a process can hide."""
    naps = [f"sleep {next(_numbers)}" for _ in range(6)]
    a, b, c, d, e, f = naps
    command = (
        f"setsid {a} & nohup {b} >/dev/null 2>&1 & (({c} &) &) ; env -i $(command -v sleep){d[5:]} & "
        f"env -i $(command -v setsid) $(command -v sh) -c 'trap \"\" TERM; {e}; true' & {f}"
    )
    await r.client.begin_prompt(session, f"@tool bash {json.dumps({'command': command})}\n@text end")
    await until(lambda: _seconds_slept() >= {nap[6:] for nap in naps}, within=40)


def _seconds_slept() -> set[str]:
    """The argument of every sleep(1) that runs: one look at all processes, since each takes a while."""
    commands = [process.info["cmdline"] or [""] for process in psutil.process_iter(["cmdline"])]
    return {command[-1] for command in commands if command[0].endswith("sleep")}


# Shutdown


async def test_an_idle_agent_whose_client_leaves_is_gone_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.client.prompt(await r.client.new_session(r.work), "@text hi")
        tree = below(r.client)
        assert r.client.process.stdin is not None
        await r.client.process.stdin.aclose()
        await all_gone(tree)
        assert await r.client.process.wait() == 0


async def test_an_agent_that_is_still_starting_ends_as_well(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.client.new_session(r.work)
        tree = below(r.client)
        assert r.client.process.stdin is not None
        await r.client.process.stdin.aclose()
        await all_gone(tree)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, None])
async def test_the_end_of_an_agent_saves_a_running_turn(
    tmp_path: Path, number: signal.Signals | None
) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        await escaping_tools(r, session)
        tree = below(r.client)
        if number is None:
            assert r.client.process.stdin is not None
            await r.client.process.stdin.aclose()
        else:
            r.client.process.send_signal(number)
        await all_gone(tree, within=2.5)
        assert await r.client.process.wait() == 0
    assert [record["kind"] for record in r.records(session)] == ["user", "assistant", "tool_start"]


async def test_a_signal_answers_what_is_open_and_a_second_one_ends_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, "@deltas 3\n@sleep 60")
        await r.client.wait_text(session, "tok2")
        os.kill(r.worker_pid(session), signal.SIGSTOP)  # so that the end in good order takes its time
        tree = below(r.client)
        r.client.process.terminate()
        await r.client.answer_to(id_)  # it has heard the first
        r.client.process.terminate()
        await all_gone(tree)
        assert await r.client.process.wait() == 1
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, "@deltas 3\n@sleep 60")
        await r.client.wait_text(session, "tok2")
        r.client.process.terminate()
        assert "load it" in (await r.client.answer_to(id_))["error"]["data"]["details"]


# Murder


@pytest.mark.parametrize("victim", ["front", "group", "front and zygote", "zygote, then front"])
async def test_nothing_outlives_the_front(tmp_path: Path, victim: str) -> None:
    async with rig(tmp_path) as r:
        await escaping_tools(r, await r.client.new_session(r.work))
        tree = below(r.client)
        front = r.client.process.pid
        if "zygote" in victim:
            zygote(r.client).kill()
        if victim == "zygote, then front":
            await until(lambda: len(titled(r.client, "iac-code: worker")) == 1)
        if victim == "group":
            os.killpg(front, signal.SIGKILL)
        else:
            os.kill(front, signal.SIGKILL)
        await all_gone(tree, within=1.5)


@pytest.mark.parametrize("hold", ["gil=60", "stop"])
async def test_a_worker_that_cannot_run_does_not_outlive_the_front(tmp_path: Path, hold: str) -> None:
    armed = tmp_path / "armed"
    async with rig(tmp_path, env={"IAC_CODE_FAULTS": f"{hold}@turn.begin:{armed}"}) as r:
        session = await r.client.new_session(r.work)
        armed.touch()
        await r.client.begin_prompt(session, "@text never")
        await until(lambda: not armed.exists())
        tree = below(r.client)
        os.kill(r.client.process.pid, signal.SIGKILL)
        await all_gone(tree)


async def test_a_stopped_worker_of_a_dead_front_is_ended_at_the_next_start(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await escaping_tools(r, await r.client.new_session(r.work))
        tree = below(r.client)
        (worker,) = titled(r.client, "iac-code: worker")
        worker.suspend()
        zygote(r.client).kill()
        os.kill(r.client.process.pid, signal.SIGKILL)
        await r.client.process.wait()
        assert alive([worker])
        async with start_agent(tmp_path / "other") as other:
            await other.initialize()
            await other.call("session/list", {})
            await all_gone(tree, within=5)


async def test_a_murdered_zygote_is_not_noticed_and_is_replaced(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, "@deltas 5\n@sleep 2\n@text whole")
        await r.client.wait_text(session, "tok4")
        old = zygote(r.client)
        old.kill()
        other = await r.client.new_session(r.work)
        assert (await r.client.prompt(other, "@text next"))["result"]["stopReason"] == "end_turn"
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
        assert "restarted" not in r.client.text(session)
        # The worker landed on the front; its death is seen there, and what it left is swept there.
        nap = f"sleep {next(_numbers)}"
        id_ = await r.client.begin_prompt(session, f'@tool bash {{"command": "setsid {nap}"}}\n@text on')
        await until(lambda: running_command(nap))
        r.kill_worker(session)
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
        await until(lambda: not running_command(nap))


async def test_a_zygote_that_hangs_is_replaced(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@text hi")
        zygote(r.client).suspend()
        other = await r.client.new_session(r.work)
        assert (await r.client.prompt(other, "@text next"))["result"]["stopReason"] == "end_turn"
        assert (await r.client.prompt(session, "@text still"))["result"]["stopReason"] == "end_turn"


async def test_a_sweep_spares_the_background_task_of_another_session(r: Rig) -> None:
    a, b = await r.client.new_session(r.work), await r.client.new_session(r.work)
    nap, left = f"sleep {next(_numbers)}", f"sleep {next(_numbers)}"
    background = {"command": nap, "run_in_background": True}
    await r.client.prompt(a, f"@tool bash {json.dumps(background)}\n@text started")
    id_ = await r.client.begin_prompt(b, f'@tool bash {{"command": "setsid {left}"}}\n@text end')
    await until(lambda: running_command(nap) and running_command(left))
    r.kill_worker(b)
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    await until(lambda: not running_command(left))
    assert running_command(nap)


# The front lives


async def test_a_session_is_closed_and_deleted_while_its_worker_is_being_started(r: Rig) -> None:
    for method in ("session/close", "session/delete"):
        session = await r.client.new_session(r.work)
        id_ = await r.client.begin_prompt(session, "@text never")
        await r.client.call(method, {"sessionId": session})
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
    closed = await r.client.new_session(r.work)
    await r.client.prompt(closed, "@text one")
    armed = await r.client.begin_prompt(closed, "@sleep 30")
    await until(lambda: r.client.worker(closed) is not None)
    r.kill_worker(closed)
    await r.client.call("session/close", {"sessionId": closed})
    assert (await r.client.answer_to(armed))["result"]["stopReason"] == "cancelled"
    place = {"sessionId": closed, "cwd": str(r.work), "mcpServers": []}
    await r.client.call("session/load", place)
    assert (await r.client.prompt(closed, "@text back"))["result"]["stopReason"] == "end_turn"


async def test_a_cleaned_runtime_folder_costs_new_workers_alone(tmp_path: Path) -> None:
    async with rig(tmp_path, settings={"ready_within": 4.0}) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@text hi")
        runtime = Path(offline_environment(r.home)["XDG_RUNTIME_DIR"]) / "iac-code"
        (folder,) = runtime.glob(f"{r.client.process.pid}-*")
        shutil.rmtree(folder)
        other = await r.client.new_session(r.work)
        assert (await r.client.prompt(other, "@text no"))["error"]["data"]["reason"] == "boot"
        assert (await r.client.prompt(session, "@text still"))["result"]["stopReason"] == "end_turn"


async def test_a_front_without_a_descriptor_left_goes_on(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@text hi")
        front = r.client.process.pid
        before = resource.prlimit(front, resource.RLIMIT_NOFILE)
        used = psutil.Process(front).num_fds()
        resource.prlimit(front, resource.RLIMIT_NOFILE, (used + 1, before[1]))
        for _ in range(3):
            answer = await r.client.request("session/new", {"cwd": str(r.work), "mcpServers": []})
            if "result" in answer:
                answer = await r.client.prompt(answer["result"]["sessionId"], "@text perhaps")
        assert answer["error"]["code"] == -32603
        assert (await r.client.prompt(session, "@text still"))["result"]["stopReason"] == "end_turn"
        resource.prlimit(front, resource.RLIMIT_NOFILE, before)
        other = await r.client.new_session(r.work)
        assert (await r.client.prompt(other, "@text again"))["result"]["stopReason"] == "end_turn"


async def test_a_folder_whose_name_is_no_text_is_refused(r: Rig, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    answer = await r.client.request("session/new", {"cwd": str(tmp_path / "link"), "mcpServers": []})
    assert answer["error"]["code"] == -32602
    assert "UTF-8" in answer["error"]["data"]["cwd"]


async def test_boots_that_fail_everywhere_are_not_tried_until_they_may_work(tmp_path: Path) -> None:
    armed = [tmp_path / f"armed-{n}" for n in range(10)]
    faults = ",".join(f"kill@worker.start:{path}" for path in armed)
    async with rig(tmp_path, env={"IAC_CODE_FAULTS": faults}) as r:
        first = await r.client.new_session(r.work)
        await r.client.prompt(first, "@text hi")
        sessions = [await r.client.new_session(r.work) for _ in armed]
        for path in armed:
            path.touch()
        for session in sessions:
            assert (await r.client.prompt(session, "@text no"))["error"]["data"]["reason"] == "boot"
        answer = await r.client.prompt(sessions[0], "@text no")
        assert "other sessions" in answer["error"]["data"]["details"]
        assert (await r.client.prompt(first, "@text runs"))["result"]["stopReason"] == "end_turn"
        # Asking again and again does not keep it so.
        with anyio.fail_after(20):
            while "error" in (answer := await r.client.prompt(sessions[0], "@text yes")):  # noqa: ASYNC110 - the user asks again
                await anyio.sleep(0.3)
        assert answer["result"]["stopReason"] == "end_turn"


@pytest.mark.chaos
async def test_a_client_that_does_not_read_costs_no_memory_and_no_worker(tmp_path: Path) -> None:
    settings = {"unresponsive_after": 2.5, "kill_after_in_turn": 4.0, "kill_after_idle": 4.0}
    async with rig(tmp_path, settings=settings) as r:
        sessions = [await r.client.new_session(r.work) for _ in range(5)]
        for session in sessions:
            await r.client.prompt(session, "@text hi")
        pids = [r.worker_pid(session) for session in sessions]
        front = psutil.Process(r.client.process.pid)
        before = front.memory_info().rss
        r.client.pause()
        ids = [await r.client.begin_prompt(session, "@deltas 20000\n@text the-end") for session in sessions]
        for _ in range(12):
            await anyio.sleep(0.5)  # the silence is what is tested
            assert front.memory_info().rss < before + 16 * 2**20
        r.client.go_on()
        for session, id_ in zip(sessions, ids, strict=True):
            assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
            assert r.client.text(session) == "hi" + "".join(f"tok{i} " for i in range(20000)) + "the-end"
        assert [r.worker_pid(session) for session in sessions] == pids


async def test_many_deaths_leave_nothing_behind(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@text hi")

        def costs() -> list[int]:
            processes = (psutil.Process(r.client.process.pid), zygote(r.client))
            return [cost for p in processes for cost in (p.num_fds(), p.num_threads())]

        async def die(times: int) -> None:
            for _ in range(times):
                r.kill_worker(session)
                await r.client.prompt(session, "@text again")

        await die(5)
        first = costs()
        await die(12)
        await until(lambda: costs() <= first, within=5)
        assert len(list((r.sessions / session).glob("crash-*.txt"))) <= 10


async def test_a_permission_of_a_worker_that_ignores_sigterm_is_denied_cleanly(r: Rig) -> None:
    r.client.answer_permission = None
    session = await r.client.new_session(r.work)
    nap = f"sleep {next(_numbers)}"
    command = f"trap '' TERM; {nap}; true"
    id_ = await r.client.begin_prompt(session, f"@tool bash {json.dumps({'command': command})}")
    request = await r.client.wait_for(lambda m: m.get("method") == "session/request_permission")
    await r.client.respond(request, permission(request, "allow_once"))
    await until(lambda: running_command(nap))
    began = time.monotonic()
    await r.client.notify("session/cancel", {"sessionId": session})
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
    assert time.monotonic() - began < 2
    await until(lambda: not running_command(nap), within=5)
