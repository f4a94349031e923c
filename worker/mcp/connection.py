"""One run of a server: the SDK's client session on its transport, what it offers, calls to it.

Imports the SDK: to be imported in a thread. Ends with its transport; `server` starts the next.
"""

from __future__ import annotations

import logging
import math
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from shared.version import VERSION
from worker.mcp.failures import ServerFailure, described
from worker.mcp.streams import Watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from mcp.client._transport import TransportStreams

    Progress = Callable[[str], Awaitable[None]]

log = logging.getLogger(__name__)

for _noisy in ("client", "mcp"):
    # The SDK logs a traceback for each malformed message; what matters of it is told by `server`.
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)

_MOST_PAGES: Final = 20
_RELIST_EVERY: Final = 0.2
"""Seconds: a server may say without end that its tools have changed."""
_CALL_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_PROMPT_RESULT: Final[TypeAdapter[types.GetPromptResult | types.InputRequiredResult]] = TypeAdapter(
    types.GetPromptResult | types.InputRequiredResult
)


@dataclass(eq=False)
class _Call:
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: bool = False
    stirred: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is done, or has come further."""
    progress: str = ""
    result: Any = None
    failure: ServerFailure | None = None


@dataclass(eq=False)
class Connection:
    """An initialized session. `lost` is set when no call can succeed on it any more."""

    session: ClientSession
    call_within: float
    changed: Callable[[Connection], Awaitable[None]]
    """Called when the server's tools or prompts were listed again."""
    tools: list[types.Tool] = field(default_factory=list)
    prompts: list[types.Prompt] = field(default_factory=list)
    lost: anyio.Event = field(default_factory=anyio.Event)
    _stale: anyio.Event = field(default_factory=anyio.Event)
    _tasks: anyio.abc.TaskGroup = field(init=False)

    @property
    def instructions(self) -> str:
        """What the server says on its use."""
        return self.session.instructions or ""

    async def begin(self, tasks: anyio.abc.TaskGroup) -> None:
        """Negotiate and list. Raises what the SDK raises."""
        self._tasks = tasks
        try:
            await self.session.initialize()
        except MCPError as e:
            # Only a server that knows nothing but the protocol without a handshake says so.
            if e.code not in (types.UNSUPPORTED_PROTOCOL_VERSION, types.METHOD_NOT_FOUND):
                raise
            await self.session.discover()
        await self._list()
        tasks.start_soon(self._follow)
        if self.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            tasks.start_soon(self._listen)

    async def on_message(self, message: types.ServerNotification | Exception) -> None:
        """See the SDK's MessageHandlerFnT."""
        if isinstance(message, types.ToolListChangedNotification | types.PromptListChangedNotification):
            self._stale.set()

    async def call_tool(self, name: str, arguments: dict[str, Any], show: Progress) -> types.CallToolResult:
        """Raises ServerFailure. Cancelled: returns at once, and the server is told."""

        call = _Call()

        async def on_progress(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            of = f" of {total:g}" if total is not None else ""
            call.progress = f"{progress:g}{of}{f': {message}' if message else ''}"[:2000]
            call.stirred.set()

        async def ask() -> Any:
            params = types.CallToolRequestParams(name=name, arguments=arguments)
            # Not `session.call_tool`: that checks results against the server's own schema, whose patterns
            # may take for ever, with the GIL held.
            return await self.session.send_request(
                types.CallToolRequest(params=params), _CALL_RESULT, progress_callback=on_progress
            )

        result: types.CallToolResult = await self._run(call, ask, show)
        return result

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> types.GetPromptResult:
        """Raises ServerFailure."""

        async def ask() -> Any:
            params = types.GetPromptRequestParams(name=name, arguments=arguments)
            return await self.session.send_request(types.GetPromptRequest(params=params), _PROMPT_RESULT)

        async def nowhere(_: str) -> None:
            pass

        result: types.GetPromptResult = await self._run(_Call(), ask, nowhere)
        return result

    async def _run(self, call: _Call, ask: Callable[[], Awaitable[Any]], show: Progress) -> Any:
        # In a task of the connection: the SDK's way out of a cancelled request waits for the server.
        if self.lost.is_set():
            raise ServerFailure("is being started again.")
        self._tasks.start_soon(self._ask, call, ask)
        try:
            while not call.done:
                await call.stirred.wait()
                call.stirred = anyio.Event()
                if call.progress and not call.done:
                    text, call.progress = call.progress, ""
                    await show(text)
        finally:
            call.scope.cancel()
        if call.result is None:
            raise call.failure or ServerFailure("ended before it answered; the call may have had effect.")
        if isinstance(call.result, types.InputRequiredResult):
            raise ServerFailure("asks back for input in mid-call, which iac-code cannot give it.")
        return call.result

    async def _ask(self, call: _Call, ask: Callable[[], Awaitable[Any]]) -> None:
        try:
            with call.scope, anyio.fail_after(self.call_within):
                call.result = await ask()
        except TimeoutError:
            call.failure = ServerFailure(
                f"did not answer within {self.call_within:g} s. The call may have had effect."
            )
        except MCPError as e:
            # The code alone says nothing: HTTP transports use it for one stream that broke off.
            if e.message in ("Connection closed", "Session terminated"):
                self.lost.set()
            else:
                call.failure = ServerFailure(f"answered with an error: {described(e)}")
        except ValidationError as e:
            log.warning("an MCP server's answer is malformed: %d errors", e.error_count())
            call.failure = ServerFailure("answered with what is no result of MCP.")
        finally:
            if call.result is None and call.failure is None and not call.scope.cancel_called:
                self.lost.set()  # cancelled by the transport's end, which the others learn of a little later
            call.done = True
            call.stirred.set()

    async def _list(self) -> None:
        capabilities = self.session.server_capabilities
        if capabilities is not None and capabilities.tools is not None:
            self.tools = await self._pages(self.session.list_tools, "tools")
        if capabilities is not None and capabilities.prompts is not None:
            self.prompts = await self._pages(self.session.list_prompts, "prompts")

    async def _pages(self, list_page: Callable[..., Awaitable[Any]], items: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await list_page(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
            found += getattr(page, items)
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def _follow(self) -> None:
        """List again whenever the server says that something changed."""
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            try:
                with anyio.fail_after(self.call_within):
                    await self._list()
            except (MCPError, ValidationError, TimeoutError) as e:
                log.warning("an MCP server's tools could not be listed again: %s", described(e))
            else:
                await self.changed(self)
            await anyio.sleep(_RELIST_EVERY)

    async def _listen(self) -> None:
        """Without a handshake there are no notifications unasked."""
        try:
            async with listen(
                self.session, tools_list_changed=True, prompts_list_changed=True
            ) as subscription:
                async for _ in subscription:
                    self._stale.set()
        except (MCPError, RuntimeError, TimeoutError) as e:
            log.info("an MCP server does not tell of changes: %s", described(e))


@asynccontextmanager
async def connected(
    streams: TransportStreams,
    roots: Sequence[Path],
    start_within: anyio.CancelScope,
    call_within: float,
    changed: Callable[[Connection], Awaitable[None]],
) -> AsyncIterator[Connection]:
    """A connection that has negotiated and listed. `start_within` gets no deadline any more once it has."""

    async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=root.as_uri(), name=root.name) for root in roots])

    async def on_message(message: types.ServerNotification | Exception) -> None:
        await connection.on_message(message)

    lost = anyio.Event()
    read, write = streams
    session = ClientSession(
        Watched(read, lost),
        write,
        list_roots_callback=list_roots,
        message_handler=on_message,
        client_info=types.Implementation(name="iac-code", version=VERSION),
    )
    connection = Connection(session, call_within, changed, lost=lost)
    try:
        async with session, anyio.create_task_group() as tasks:
            await connection.begin(tasks)
            start_within.deadline = math.inf
            yield connection
            tasks.cancel_scope.cancel()
    finally:
        lost.set()
