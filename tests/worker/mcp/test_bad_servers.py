"""A bad server costs its own tools: whatever it does, the others answer, and nothing of it is left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from shared.mcp_servers import StdioServer
from tests.worker.mcp.conftest import having, logged, raw
from worker.mcp import server as mcp_server

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.processes import Processes

pytestmark = pytest.mark.anyio

GOOD = raw("good", name="good")


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that fails is tried again once."""
    monkeypatch.setattr(mcp_server, "PAUSES", (0.01,))


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("exits", "ended with code 3: no config found"),
        ("silent", "did not start within 1 s"),
        ("flood", "floods its stdout"),
        ("flood-line", "wrote a line of more than 128 MiB"),
        ("flood-json", "floods its stdout"),
    ],
)
@pytest.mark.usefixtures("once")
async def test_a_server_that_cannot_be_used_is_told_once_and_costs_nobody_else(
    processes: Processes, tmp_path: Path, mode: str, why: str
) -> None:
    slow = 1.0 if mode == "silent" else 20.0
    async with having(processes, tmp_path, raw(mode), GOOD, start_within=slow) as had:
        assert "done" in (await had.call("mcp__good__do")).text
        await had.until(lambda: any("raw" in line and "failed" in line for line in had.servers.status()))
        (notice,) = had.servers.notices()
        assert notice.startswith("MCP server 'raw'")
        assert why in notice
        assert had.servers.notices() == []
        assert sorted(had.servers.tools) == ["mcp__good__do"]
        assert not (await had.call("mcp__good__do")).is_error


async def test_a_command_that_does_not_exist_is_not_tried_again(processes: Processes, tmp_path: Path) -> None:
    missing = StdioServer(name="gone", command="/nowhere/at-all")
    async with having(processes, tmp_path, missing) as had:
        await had.until(lambda: "failed" in had.servers.status()[0])
        (notice,) = had.servers.notices()
        assert "could not be started: /nowhere/at-all: No such file or directory" in notice


async def test_secrets_of_a_server_are_not_in_what_is_told_of_it(
    processes: Processes, tmp_path: Path
) -> None:
    leaky = StdioServer(
        name="leaky", command="/bin/sh", args=["-c", 'echo "bad token $T" >&2'], env={"T": "s3cret-token"}
    )
    async with having(processes, tmp_path, leaky) as had:
        await had.until(lambda: bool(had.servers.status()[0].count("ended")))
        told = " ".join([*had.servers.notices(), *had.servers.status()])
        assert "bad token ***" in told
        assert "s3cret" not in told


async def test_rubbish_between_messages_is_passed_over(processes: Processes, tmp_path: Path) -> None:
    async with having(processes, tmp_path, raw("rubbish")) as had:
        assert (await had.call("mcp__raw__do", a=1)).text == "done {'a': 1}"


async def test_a_server_that_dies_in_mid_call_fails_the_call_and_comes_back(
    processes: Processes, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with having(processes, tmp_path, raw("dies-once", str(log))) as had:
        died = await had.call("mcp__raw__do")
        assert died.is_error
        assert died.text.startswith("MCP server 'raw' ended before it answered")
        assert "may have had effect" in died.text
        # Called again at once: the call waits for the next run. It is never made again by itself.
        assert (await had.call("mcp__raw__do")).text == "done {}"
    assert log.read_text().count("call do") == 2
    assert log.read_text().count("started") == 2


async def test_a_server_that_closes_its_stdout_in_mid_call_fails_the_call(
    processes: Processes, tmp_path: Path
) -> None:
    async with having(processes, tmp_path, raw("closes")) as had:
        closed = await had.call("mcp__raw__do")
        assert "ended before it answered" in closed.text
        await had.until(lambda: bool(had.servers._servers["raw"].notice))
        assert "closed its stdout" in had.servers.notices()[0]


@pytest.mark.parametrize("mode", ["hangs", "deaf"])
async def test_a_call_that_is_never_answered_ends_after_its_time(
    processes: Processes, tmp_path: Path, mode: str
) -> None:
    async with having(processes, tmp_path, raw(mode), GOOD, call_within=0.3) as had:
        hung = await had.call("mcp__raw__do")
        assert "did not answer within 0.3 s" in hung.text
        assert not (await had.call("mcp__good__do")).is_error


@pytest.mark.parametrize("mode", ["hangs", "deaf"])
async def test_a_cancelled_call_returns_at_once_and_the_server_is_told(
    processes: Processes, tmp_path: Path, mode: str
) -> None:
    log = tmp_path / "log"
    async with having(processes, tmp_path, raw(mode, str(log))) as had:
        await had.ready()
        async with anyio.create_task_group() as calls:
            calls.start_soon(had.call, "mcp__raw__do")
            await logged(log, "call do")
            began = anyio.current_time()
            calls.cancel_scope.cancel()
        assert anyio.current_time() - began < 1
        if mode == "hangs":
            await logged(log, "cancelled")
            assert any("ready" in line for line in had.servers.status())


async def test_tools_that_change_in_mid_call_are_followed(processes: Processes, tmp_path: Path) -> None:
    async with having(processes, tmp_path, raw("changes")) as had:
        assert (await had.call("mcp__raw__do")).text == "changed"
        await had.until(lambda: "mcp__raw__later" in had.servers.tools)
        assert sorted(had.servers.tools) == ["mcp__raw__do", "mcp__raw__later"]


async def test_a_result_of_50_mb_is_bounded_and_whole_on_disk(processes: Processes, tmp_path: Path) -> None:
    async with having(processes, tmp_path, raw("big"), GOOD) as had:
        await had.ready("raw")
        late = 0.0

        async def watch() -> None:
            nonlocal late
            while True:
                before = anyio.current_time()
                await anyio.sleep(0.01)
                late = max(late, anyio.current_time() - before)

        async with anyio.create_task_group() as watching:
            watching.start_soon(watch)
            output = await had.call("mcp__raw__do")
            watching.cancel_scope.cancel()
        assert not output.is_error
        assert len(output.text) < 40_000
        spilled = tmp_path / "spill" / "call.txt"
        assert str(spilled) in output.text
        assert spilled.stat().st_size == 50 << 20
        assert late < 2.5  # the loop must answer pings: a worker that is silent for 3 s counts as hung


async def test_a_result_of_very_many_blocks_is_bounded(processes: Processes, tmp_path: Path) -> None:
    async with having(processes, tmp_path, raw("many")) as had:
        output = await had.call("mcp__raw__do")
        assert "[299500 more blocks are not shown]" in output.text
        assert len(output.text) < 40_000


async def test_an_answer_that_is_no_result_fails_the_call_alone(processes: Processes, tmp_path: Path) -> None:
    async with having(processes, tmp_path, raw("nonsense")) as had:
        output = await had.call("mcp__raw__do")
        assert output.is_error
        assert "no result of MCP" in output.text
        assert any("ready" in line for line in had.servers.status())


async def test_a_server_that_asks_for_what_we_have_not_is_refused(
    processes: Processes, tmp_path: Path
) -> None:
    async with having(processes, tmp_path, raw("asks")) as had:
        assert "Sampling not supported" in (await had.call("mcp__raw__do")).text


async def test_a_family_that_ignores_eof_and_sigterm_ends_with_the_session(
    processes: Processes, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with having(processes, tmp_path, raw("stubborn", str(log))) as had:
        await had.ready()
    await processes.stop_all()
    pids = [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("pid")]
    assert len(pids) == 3
    assert not [pid for pid in pids if psutil.pid_exists(pid) and pid != os.getpid()]
