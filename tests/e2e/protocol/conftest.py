"""One agent for all tests of this folder: to start one costs more than most of them take.

So a test may rely on no more than a session and a folder of its own, and leaves the client as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.rig import rig
from tests.leaks import Snapshot, left

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.e2e.rig import Rig


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """As wide as the agent, which lives in its loop."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Not asked after each test, whose sessions the agent keeps, but at the end of all."""


@pytest.fixture(scope="package")
def nothing_is_left_in_the_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails if the agent leaves a process, a thread or a descriptor behind."""
    before = Snapshot.take()
    yield
    found, processes = left(before, tmp_path_factory.getbasetemp().resolve())
    for process in processes:
        process.kill()
    assert not found, found


@pytest.fixture(scope="package")
async def r(
    nothing_is_left_in_the_end: None, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    """The agent. When the last test is over, each line that it wrote was by the protocol."""
    async with rig(tmp_path_factory.mktemp("protocol")) as made:
        yield made


@pytest.fixture
async def work(tmp_path: Path) -> Path:
    """A folder to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder
