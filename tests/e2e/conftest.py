"""One agent for all tests that need no other: to start one costs more than most of them take.

So a test may rely on no more than sessions and a folder of its own, and may end neither front nor zygote.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import psutil
import pytest
from anyio import to_thread

from supervisor.cli.ps import SOCKET_NAME, query
from tests.e2e.rig import ARMED, faults, rig, until
from tests.e2e.shared_agent import shared
from tests.leaks import Snapshot, left

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.e2e.rig import Rig
    from tests.e2e.shared_agent import Shared


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """As wide as the agent, which lives in its loop."""
    return "asyncio"


@pytest.fixture(scope="package")
def nothing_is_left_in_the_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails if the agent leaves a process, a thread or a descriptor behind."""
    before = Snapshot.take()
    yield
    found, processes = left(before, tmp_path_factory.getbasetemp().resolve())
    for process in processes:
        process.kill()
    assert not found, found


APPENDS: Final = 6
"""Records of a turn with one tool call: user, assistant, tool_start, tool_result, assistant, turn_end."""
FAULTS: Final = (
    *(f"kill@journal.{step}#{n}" for n in range(1, APPENDS + 1) for step in ("append", "written", "synced")),
    *(
        f"{action}@journal.{step}#{n}"
        for action in ("enospc", "eio", "erofs")
        for n in range(1, APPENDS + 1)
        for step in ("append", "written")
    ),
    *(f"kill@{point}" for point in ("turn.begin#1", "turn.ended#1", "replay.begin", "journal.read")),
    "kill@worker.start",
)
"""What a test may have happen in the shared agent with `Rig.arm`."""


@pytest.fixture(scope="package")
async def agent(
    nothing_is_left_in_the_end: None, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    """The agent, with its zygote. When the last test is over, each line that it wrote was by the protocol."""
    async with rig(tmp_path_factory.mktemp("agent")) as made:
        await _warm(made)
        yield made


@pytest.fixture(scope="package")
async def faulty_agent(
    nothing_is_left_in_the_end: None, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    """One with `FAULTS`, whose workers take longer to start: they are not rehearsed."""
    folder = tmp_path_factory.mktemp("faulty")
    async with rig(folder, env=faults(folder, FAULTS)) as made:
        await _warm(made)
        yield made


WINDOW: Final = 30_000
"""Tokens that the service of `small` takes; tools and system prompt are 3,000 of them."""
_MODELS: Final = [
    {"id": "fits", "name": "Fits", "window": WINDOW, "max_output": 8_000},
    {"id": "overrated", "name": "Believed to take more", "window": 10 * WINDOW},
    {"id": "tiny", "name": "Tiny", "window": 8_000},
]


@pytest.fixture(scope="package")
async def small_agent(
    nothing_is_left_in_the_end: None, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    """One whose service takes little, with models of which that is known or not."""
    folder = tmp_path_factory.mktemp("small")
    async with rig(folder, settings={"models": _MODELS}, window=WINDOW) as made:
        await _warm(made)
        yield made


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def r(agent: Rig, work: Path) -> AsyncIterator[Rig]:
    """The agent as if new: it has heard nothing yet. At exit its sessions are closed and it goes on."""
    async with _lent(agent, work) as made:
        yield made


@pytest.fixture
async def faulty(faulty_agent: Rig, work: Path) -> AsyncIterator[Rig]:
    """The agent with faults, likewise."""
    async with _lent(faulty_agent, work) as made:
        yield made
        for armed in (made.home.parent / ARMED).iterdir():
            armed.unlink()


@pytest.fixture
async def small(small_agent: Rig, work: Path) -> AsyncIterator[Rig]:
    """The agent with small windows, likewise."""
    async with _lent(small_agent, work) as made:
        yield made


@asynccontextmanager
async def _lent(agent: Rig, work: Path) -> AsyncIterator[Rig]:
    client, double = agent.client, agent.double
    for heard in (client.messages, client.lines, double.requests):
        heard.clear()
    kind = client.answer_permission
    yield replace(agent, work=work)
    client.answer_permission, client.answer_request, client.watch = kind, None, None
    assert client.wire is not None
    client.wire.unknown = False
    answers = [message.get("result") for message in client.messages]
    for session in [a["sessionId"] for a in answers if isinstance(a, dict) and "sessionId" in a]:
        await _close(agent, session)
    await double.hang_up()
    assert client.stderr == b""
    assert double.refusals == [], double.refusals


async def _warm(agent: Rig) -> None:
    """Have it start its zygote, which stays."""
    session = await agent.client.new_session(agent.work)
    await agent.client.prompt(session, "@text warm")
    await _close(agent, session)


@pytest.fixture(scope="package")
async def shared_agent(
    nothing_is_left_in_the_end: None, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shared]:
    """`iac-code serve`, with its zygote."""
    async with shared(tmp_path_factory.mktemp("shared")) as made:
        async with made.client() as client:
            await client.initialize()
            await client.prompt(await client.new_session(made.work), "@text warm")
        await _close_all(made)
        yield made


@pytest.fixture
async def s(shared_agent: Shared, work: Path) -> AsyncIterator[Shared]:
    """The shared agent as if new: no client, and nothing logged yet. At exit its sessions are closed."""
    double = shared_agent.double
    double.requests.clear()
    yield replace(shared_agent, work=work, logged_before=len(shared_agent.log_lines()))
    await _close_all(shared_agent)
    await double.hang_up()
    assert double.refusals == []


async def _close_all(agent: Shared) -> None:
    """Close the sessions that are open in it; their workers are gone then."""
    (control,) = agent.socket.parent.glob(f"*/{SOCKET_NAME}")
    state = await to_thread.run_sync(query, control)
    assert state is not None
    for session in state["sessions"]:
        await to_thread.run_sync(query, control, {"close": session["sessionId"]})
    await until(lambda: not agent.workers())


async def _close(agent: Rig, session: str) -> None:
    """Close a session, unless it is closed; its worker is gone then, as far as it can be seen."""
    worker = agent.client.worker(session)
    await agent.client.request("session/close", {"sessionId": session})
    await until(lambda: worker is None or not _lives(worker))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
