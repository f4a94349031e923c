"""One server of a session, over all its runs: started, followed, started again with growing pauses.

Whatever it does costs its own tools only: a failure is told once, logged, and tried again a few times.
"""

from __future__ import annotations

import importlib
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
from anyio import to_thread

from shared.mcp_servers import StdioServer
from worker.mcp.failures import ServerFailure, described, without
from worker.mcp.names import full_names
from worker.mcp.stdio import ServerProcess
from worker.mcp.tool import McpTool
from worker.off_loop import off_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from mcp_types import CallToolResult, GetPromptResult, Prompt

    from shared.mcp_servers import McpServer
    from worker.mcp.connection import Connection
    from worker.tools.processes import Processes

log = logging.getLogger(__name__)

PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each new attempt; then it is given up."""
_STEADY: Final = 60.0
"""A run of this many seconds makes up for all failures before it."""
_AGAIN_WITHIN: Final = 15.0
"""Seconds that a call waits for a server that is being started again."""


@dataclass(frozen=True)
class Surroundings:
    """Where a session's servers run, and how long they may take, in seconds."""

    processes: Processes
    cwd: Path
    roots: tuple[Path, ...]
    environment: Mapping[str, str]
    start_within: float
    call_within: float


@dataclass(eq=False)
class Server:
    """`tools` and `prompts` are what it offers now, by whole names; they stay while it is started again."""

    key: str
    config: McpServer
    surroundings: Surroundings
    changed: Callable[[], None]
    """Called when what it offers, or its state, is another."""
    state: Literal["starting", "ready", "failed"] = "starting"
    reason: str = ""
    """Why it is not ready, as a phrase that follows its name."""
    took: float = 0.0
    """Seconds that the last start took, or took to fail."""
    tools: dict[str, McpTool] = field(default_factory=dict)
    prompts: dict[str, Prompt] = field(default_factory=dict)
    instructions: str = ""
    notice: str = ""
    """What the user has not been told yet."""
    loaded: anyio.Event = field(default_factory=anyio.Event)
    """Set when the SDK is there, and only the server itself is waited for."""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set when it was ready or failed once."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _connection: Connection | None = None
    _moved: anyio.Event = field(default_factory=anyio.Event)
    _told: bool = False

    @property
    def name(self) -> str:
        """As the client or the user named it."""
        return self.config.name

    def called(self) -> str:
        """How a sentence on it begins."""
        return f"MCP server {self.name!r}"

    async def run(self) -> None:
        """Keep it running until `scope` is cancelled or it is given up."""
        with self.scope:
            failures = 0
            while True:
                began = anyio.current_time()
                failure = await self._run_once()
                if anyio.current_time() - began > _STEADY + self.took and self._connection is not None:
                    failures = 0
                if self._connection is None:
                    self.took = anyio.current_time() - began
                self._connection = None
                gives_up = failure.lasting or failures == len(PAUSES)
                self._failed(failure, gives_up=gives_up)
                if gives_up:
                    return
                await anyio.sleep(PAUSES[failures])
                failures += 1

    async def until(self, condition: Callable[[], bool], within: float) -> None:
        """Return when `condition` holds, it is given up, or after `within` seconds."""
        with anyio.move_on_after(within):
            while not condition() and self.state != "failed":
                await self._moved.wait()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], progress: Callable[[str], Awaitable[None]]
    ) -> CallToolResult:
        """Raises ServerFailure. Never tried again: it may have had effect."""
        return await (await self._ready()).call_tool(name, arguments, progress)

    async def get_prompt(self, full_name: str, arguments: dict[str, str]) -> GetPromptResult:
        """Raises ServerFailure, KeyError for a prompt that it does not offer."""
        prompt = self.prompts[full_name]
        return await (await self._ready()).get_prompt(prompt.name, arguments)

    async def _ready(self) -> Connection:
        await self.until(self._is_ready, _AGAIN_WITHIN)
        if self._connection is None or not self._is_ready():
            raise ServerFailure(f"is not there: it {self.reason or 'is still starting'}.")
        return self._connection

    def _is_ready(self) -> bool:
        return self._connection is not None and not self._connection.lost.is_set()

    async def _run_once(self) -> ServerFailure:
        """One run; returns why it ended."""
        process = ServerProcess() if isinstance(self.config, StdioServer) else None
        try:
            async with AsyncExitStack() as stack:
                began = anyio.current_time()
                if process is not None:
                    stack.callback(process.stop)
                    self._start(process)
                # A second or two: in a thread, so that the worker answers pings meanwhile.
                sdk = await to_thread.run_sync(
                    importlib.import_module, "worker.mcp.connection", abandon_on_cancel=True
                )
                transport = await self._transport(process)
                self.loaded.set()
                with anyio.CancelScope(deadline=anyio.current_time() + self._within()) as starting:
                    async with AsyncExitStack() as connecting:
                        streams = await connecting.enter_async_context(transport)
                        made = sdk.connected(
                            streams,
                            self.surroundings.roots,
                            starting,
                            self.surroundings.call_within,
                            self._offer,
                        )
                        connection: Connection = await connecting.enter_async_context(made)
                        self.took = anyio.current_time() - began
                        self._connection = connection
                        await self._offer(connection)
                        await connection.lost.wait()
                if starting.cancelled_caught:
                    said = process.last_words() if process is not None else ""
                    return ServerFailure(f"did not start within {self._within():g} s{said}")
                return ServerFailure(process.why() if process is not None else "closed the connection")
        except Exception as e:  # noqa: BLE001 - whatever a server makes the SDK raise costs that server alone
            return _failure(e, process)

    def _within(self) -> float:
        return self.surroundings.start_within

    def _start(self, process: ServerProcess) -> None:
        assert isinstance(self.config, StdioServer)
        around = self.surroundings
        try:
            process.start(self.config, around.processes, around.cwd, around.environment)
        except (OSError, ValueError) as e:
            what = getattr(e, "filename", None) or self.config.command  # or the working directory
            raise ServerFailure(f"could not be started: {what}: {described(e)}", lasting=True) from e

    async def _transport(self, process: ServerProcess | None) -> Any:
        module, name, of = (
            ("streams", "stdio_streams", process)
            if process is not None
            else ("remote", "remote_streams", self.config)
        )
        loaded = await to_thread.run_sync(
            importlib.import_module, f"worker.mcp.{module}", abandon_on_cancel=True
        )
        return getattr(loaded, name)(of)

    async def _offer(self, connection: Connection) -> None:
        """Take over what the connection has listed."""
        names = full_names(self.key, (tool.name for tool in connection.tools))
        described_as = await off_loop(_offered, connection)
        tools = {tool.name: tool for tool in reversed(connection.tools)}
        self.tools = {
            full: McpTool(full, self, tools[own], *described_as[own]) for full, own in names.items()
        }
        prompts = {prompt.name: prompt for prompt in reversed(connection.prompts)}
        self.prompts = {full: prompts[own] for full, own in full_names(self.key, prompts).items()}
        self.instructions = connection.instructions
        self.state, self.reason = "ready", ""
        log.info("MCP server %s is ready: %d tools", self.key, len(self.tools))
        self._move()

    def _failed(self, failure: ServerFailure, *, gives_up: bool) -> None:
        secrets = self.config.env if isinstance(self.config, StdioServer) else self.config.headers
        self.reason = without(str(failure).rstrip("."), secrets.values())
        log.warning("MCP server %s %s%s", self.key, self.reason, "; given up" if gives_up else "")
        if not self._told:
            self._told = True
            again = "." if gives_up else "; it is started again."
            self.notice = f"{self.called()} {self.reason}. Its tools are missing{again}"
        self.state = "failed" if gives_up else "starting"
        if gives_up:
            self.tools, self.prompts, self.instructions = {}, {}, ""
        self._move()

    def _move(self) -> None:
        self.settled.set()
        moved, self._moved = self._moved, anyio.Event()
        moved.set()
        self.changed()


def _offered(connection: Connection) -> dict[str, tuple[str, dict[str, Any]]]:
    """Description and schema by a tool's own name; of two with one name the first counts."""
    from worker.mcp.schemas import offered  # brings jsonschema, which a session without servers does not need

    return {
        tool.name: offered(tool.description or tool.title or tool.name, tool.input_schema)
        for tool in reversed(connection.tools)
    }


def _failure(error: Exception, process: ServerProcess | None) -> ServerFailure:
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, ServerFailure):
        return first
    if process is not None and process.ended():
        return ServerFailure(process.why())
    return ServerFailure(f"cannot be used: {described(first)}")
