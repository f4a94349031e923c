"""A zygote that dies, or is still warming, when it matters."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from shared.credentials import Credentials, save_login
from tests.e2e.client import start_agent
from tests.e2e.rig import rig, running_command, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.client import RawClient

pytestmark = pytest.mark.anyio


def below(client: RawClient, title: str) -> list[psutil.Process]:
    """Processes of the agent whose title begins so."""
    processes = psutil.Process(client.process.pid).children(recursive=True)
    return [process for process in processes if " ".join(process.cmdline()).startswith(title)]


async def gone(processes: list[psutil.Process], within: float) -> None:
    """They end within so many seconds."""
    with anyio.fail_after(within):
        while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_a_zygote_that_still_warms_does_not_outlive_its_front(tmp_path: Path) -> None:
    async with start_agent(tmp_path) as client:
        await client.initialize()
        with anyio.fail_after(10):
            while not (zygotes := below(client, "iac-code: zygote")):  # noqa: ASYNC110 - no event
                await anyio.sleep(0.005)
        os.kill(client.process.pid, signal.SIGKILL)
        await gone(zygotes, within=0.5)


async def test_workers_wait_for_another_zygote_instead_of_starting_one_by_one(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        sessions = [await r.client.new_session(r.work) for _ in range(4)]
        for session in sessions:
            await r.client.prompt(session, "@text hi")
        (zygote,) = below(r.client, "iac-code: zygote")
        zygote.kill()
        workers = [r.worker_pid(session) for session in sessions]
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        for session in sessions:
            assert (await r.client.prompt(session, "@text again"))["result"]["stopReason"] == "end_turn"
        (another,) = below(r.client, "iac-code: zygote")
        assert {psutil.Process(r.worker_pid(session)).ppid() for session in sessions} == {another.pid}


async def test_a_worker_that_cannot_run_and_lost_its_zygote_does_not_outlive_a_killed_front(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        nap = f"sleep {os.getpid() + 200_000}"
        await r.client.begin_prompt(session, f'@tool bash {{"command": "setsid {nap} & {nap}"}}\n@text end')
        await until(lambda: len(running_command(nap)) == 2)
        worker = psutil.Process(r.worker_pid(session))
        tools = [psutil.Process(pid) for pid in running_command(nap)]
        below(r.client, "iac-code: zygote")[0].kill()
        await until(lambda: bool(below(r.client, "iac-code: guardian")))
        guardian = below(r.client, "iac-code: guardian")
        worker.suspend()
        os.kill(r.client.process.pid, signal.SIGKILL)
        await gone([worker, *tools, *guardian], within=1)


async def test_a_stopped_worker_of_a_dead_zygote_ends_with_its_front(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@text hi")
        (zygote,) = below(r.client, "iac-code: zygote")
        worker = psutil.Process(r.worker_pid(session))
        zygote.kill()
        worker.suspend()
        assert r.client.process.stdin is not None
        await r.client.process.stdin.aclose()
        with anyio.fail_after(10):
            await r.client.process.wait()
        await gone([worker], within=0.2)


async def test_the_sdk_is_imported_once_for_all_when_its_first_session_comes(tmp_path: Path) -> None:
    async with rig(tmp_path, env={"ANTHROPIC_API_KEY": ""}) as r:
        await r.client.prompt(await r.client.new_session(r.work), "hello")
        (zygote,) = below(r.client, "iac-code: zygote")
        without = zygote.memory_info().rss
        save_login(r.home / "config", Credentials(api_key="sk-double"))
        for _ in range(2):
            # By the login a new session has a model that is asked through it: nobody restarts anything.
            session = await r.client.new_session(r.work)
            answer = await r.client.prompt(session, "@text of the model")
            assert answer["result"]["stopReason"] == "end_turn"
            assert r.client.text(session) == "of the model"
            assert psutil.Process(r.worker_pid(session)).ppid() == zygote.pid
        assert zygote.memory_info().rss > without + 4 * 2**20
