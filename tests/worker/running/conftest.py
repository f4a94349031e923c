"""A worker's surroundings for its tools: real processes, and a check that none is left. Its searches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from shared.processes import become_subreaper, descendants
from tests.worker.running.watching import open_descriptors
from worker.tools.base import Access, ToolContext
from worker.tools.bash import TOOL as BASH
from worker.tools.bash import BashInput
from worker.tools.glob import TOOL as GLOB
from worker.tools.glob import GlobInput
from worker.tools.grep import TOOL as GREP
from worker.tools.grep import GrepInput
from worker.tools.processes import Processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from pathlib import Path

    from worker.tools.base import ToolOutput

    Bash = Callable[..., Coroutine[Any, Any, ToolOutput]]
    Search = Callable[..., Awaitable[str]]


@pytest.fixture
async def processes(anyio_backend: str) -> AsyncIterator[Processes]:
    """The worker's processes; the test fails if anything of them lives on or a descriptor stays open."""
    become_subreaper()
    before = {process.pid for process in descendants(os.getpid())}
    fds = open_descriptors()
    async with Processes() as running:
        yield running
    left = [process for process in descendants(os.getpid()) if process.pid not in before]
    assert left == []
    assert open_descriptors() <= fds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The session's working directory."""
    made = (tmp_path / "project").resolve()
    made.mkdir()
    return made


@pytest.fixture
def context(folder: Path, tmp_path: Path, processes: Processes) -> Callable[..., ToolContext]:
    """Makes the context of one call. `shown` collects what the client would see of it."""

    def make(
        call_id: str = "call",
        *,
        shown: list[str] | None = None,
        environment: dict[str, str] | None = None,
        permitted: tuple[Access, ...] = (),
        allow_private_addresses: bool = False,
    ) -> ToolContext:
        async def progress(text: str) -> None:
            if shown is not None:
                shown.append(text)

        unused: Any = None
        return ToolContext(
            call_id=call_id,
            cwd=folder,
            roots=(folder,),
            session_dir=tmp_path / "session",
            stamps={},
            processes=processes,
            editor=unused,
            environment=dict(os.environ) if environment is None else environment,
            progress=progress,
            delegate=unused,
            show_plan=unused,
            allow_private_addresses=allow_private_addresses,
            permitted=permitted,
        )

    return make


@pytest.fixture
def glob(context: Callable[..., ToolContext]) -> Search:
    """Finds files; gives what the model is shown."""

    async def run(pattern: str, permitted: tuple[Access, ...] = (), **given: Any) -> str:
        with anyio.fail_after(30):
            output = await GLOB.run(GlobInput(pattern=pattern, **given), context(permitted=permitted))
        assert not output.is_error
        return output.text

    return run


@pytest.fixture
def grep(context: Callable[..., ToolContext]) -> Search:
    """Finds lines; gives what the model is shown."""

    async def run(
        pattern: str,
        permitted: tuple[Access, ...] = (),
        environment: dict[str, str] | None = None,
        **given: Any,
    ) -> str:
        made = context(permitted=permitted, environment=environment)
        with anyio.fail_after(30):
            output = await GREP.run(GrepInput(pattern=pattern, **given), made)
        assert not output.is_error
        return output.text

    return run


@pytest.fixture
def bash(context: Callable[..., ToolContext]) -> Bash:
    """Runs one command; what is not the tool's own input goes to `context`."""

    async def run(command: str, **more: Any) -> ToolOutput:
        given = {key: more.pop(key) for key in ("timeout", "run_in_background") if key in more}
        with anyio.fail_after(30):
            return await BASH.run(BashInput(command=command, **given), context(**more))

    return run
