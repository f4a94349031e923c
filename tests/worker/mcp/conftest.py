"""A session's MCP servers in this process, and a check that nothing of them is left."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from shared.mcp_servers import RemoteServer, StdioServer
from shared.processes import become_subreaper, descendants
from tests.worker.running.watching import open_descriptors
from worker.mcp.server import Surroundings
from worker.mcp.servers import McpServers
from worker.tools import run_tool
from worker.tools.base import ToolContext
from worker.tools.processes import Processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from worker.tools.base import ToolOutput

HERE = Path(__file__).parent
PATIENCE = 20.0
"""Seconds. Only a failure waits this long."""


def raw(mode: str, *arguments: str, name: str = "raw", **env: str) -> StdioServer:
    """One of the misbehaving servers."""
    args = [str(HERE / "raw_server.py"), mode, *arguments]
    return StdioServer(name=name, command=sys.executable, args=args, env=env)


def sdk(name: str = "sdk", **env: str) -> StdioServer:
    """The server made with the official SDK."""
    return StdioServer(
        name=name, command=sys.executable, args=[str(HERE / "sdk_server.py"), "stdio"], env=env
    )


async def logged(log: Path, text: str) -> None:
    """Wait until a raw server has noted that."""
    with anyio.fail_after(PATIENCE):
        while not _holds(log, text):  # noqa: ASYNC110 - a file has no event
            await anyio.sleep(0.01)


def _holds(log: Path, text: str) -> bool:
    return log.exists() and text in log.read_text()


class Having:
    """Servers that run, and ways to wait for them and to call them."""

    def __init__(self, processes: Processes, folder: Path, within: tuple[float, float]) -> None:
        self._changed = anyio.Event()
        self._folder = folder
        self._processes = processes
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        around = Surroundings(processes, folder, (folder,), environment, *within)
        self.servers = McpServers(around, self._note)

    def _note(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; looked at after each change."""
        with anyio.fail_after(PATIENCE):
            while not condition():
                await self._changed.wait()
                self._changed = anyio.Event()

    async def ready(self, name: str = "raw") -> None:
        """Wait until the server is."""
        await self.until(lambda: any(name in line and ": ready" in line for line in self.servers.status()))

    async def call(self, name: str, shown: list[str] | None = None, /, **arguments: Any) -> ToolOutput:
        """Call a tool as the agent does."""

        async def progress(text: str) -> None:
            if shown is not None:
                shown.append(text)

        tool: Any = await self.servers.find(name)
        assert tool is not None, sorted(self.servers.tools)
        unused: Any = None
        context = ToolContext(
            call_id="call",
            cwd=self._folder,
            roots=(self._folder,),
            session_dir=self._folder,
            stamps={},
            processes=self._processes,
            editor=unused,
            environment={},
            progress=progress,
            delegate=unused,
            show_plan=unused,
        )
        with anyio.fail_after(PATIENCE):
            return await run_tool(tool, tool.Input.model_validate(arguments), context)


@asynccontextmanager
async def having(
    processes: Processes,
    folder: Path,
    *configs: StdioServer | RemoteServer,
    of_settings: Sequence[StdioServer | RemoteServer] = (),
    start_within: float = PATIENCE,
    call_within: float = PATIENCE,
) -> AsyncIterator[Having]:
    """A session's servers, until the end of the block."""
    had = Having(processes, folder, (start_within, call_within))
    had.servers.use(configs, of_settings)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(had.servers.run)
        yield had
        tasks.cancel_scope.cancel()


@pytest.fixture
async def processes(anyio_backend: str) -> AsyncIterator[Processes]:
    """The worker's processes; the test fails if anything of them lives on or a descriptor stays open."""
    become_subreaper()
    before = {process.pid for process in descendants(os.getpid())}
    fds = open_descriptors()
    async with Processes() as running:
        yield running
    assert [process for process in descendants(os.getpid()) if process.pid not in before] == []
    assert open_descriptors() <= fds
