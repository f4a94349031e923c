"""The client's side of ACP over a child's stdio. Knows JSON-RPC and processes, not what an update means."""

from __future__ import annotations

import contextlib
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from shared.jsonrpc import (
    LineSplitter,
    Notification,
    Request,
    Response,
    encode,
    error_line,
    notification_line,
    parse,
    request_line,
    result_line,
)
from supervisor.cli.failure import CommandError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from anyio.abc import ByteReceiveStream, ByteSendStream, Process, TaskGroup

_END_WITHIN = 3.0
"""Seconds from the end of the agent's stdin to its own end; a running turn may take two of them."""


class AgentEndedError(CommandError):
    """The agent's process ended while it was needed; `str()` says how."""


class AgentError(CommandError):
    """The agent answered a request with an error; `str()` is its sentence."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code = error.get("code")
        self.data = error.get("data")
        details = self.data.get("details") if isinstance(self.data, dict) else self.data
        message = str(error.get("message", "The agent answered with an error"))
        super().__init__(details or (f"{message}: {self.data}" if self.data else message))


@dataclass(eq=False)
class _Waiting:
    arrived: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None


class AcpClient:
    """One agent process. Made by `connect`."""

    def __init__(
        self,
        process: Process,
        on_update: Callable[[dict[str, Any]], None],
        on_request: Callable[[str, Any], Awaitable[dict[str, Any]]],
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin: ByteSendStream = process.stdin
        self._stdout: ByteReceiveStream = process.stdout
        self._on_update = on_update
        self._on_request = on_request
        self._sending = anyio.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self._asked: dict[Any, anyio.CancelScope] = {}
        self._made = 0
        self._ended = False

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """The agent's `result`. Raises AgentError for its error, AgentEndedError when it is gone."""
        self._made += 1
        id_ = str(self._made)
        waiting = self._waiting[id_] = _Waiting()
        try:
            await self._send(request_line(id_, method, encode(params)))
            if not self._ended:
                await waiting.arrived.wait()
        finally:
            del self._waiting[id_]
        if waiting.response is None:
            raise AgentEndedError(await self._how_it_ended())
        if waiting.response.error is not None:
            raise AgentError(waiting.response.error)
        return waiting.response.result

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification. Raises AgentEndedError."""
        await self._send(notification_line(method, params))

    async def _send(self, line: bytes) -> None:
        async with self._sending:
            try:
                await self._stdin.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as e:
                raise AgentEndedError(await self._how_it_ended()) from e

    async def _how_it_ended(self) -> str:
        with anyio.move_on_after(_END_WITHIN):
            code = await self._process.wait()
            how = f"exit code {code}" if code >= 0 else f"signal {-code}"
            return f"The agent's process ended ({how}); `iac-code logs` may say why."
        return "The agent closed its output and hangs."

    async def _read(self, tasks: TaskGroup) -> None:
        splitter = LineSplitter()
        with contextlib.suppress(anyio.BrokenResourceError):
            async for chunk in self._stdout:
                for line in splitter.feed(chunk):
                    self._take(parse(line) if isinstance(line, bytes) else None, tasks)
        self._ended = True
        for waiting in self._waiting.values():
            waiting.arrived.set()

    def _take(self, message: object, tasks: TaskGroup) -> None:
        match message:
            case Response(id=id_) if id_ in self._waiting:
                self._waiting[id_].response = message
                self._waiting[id_].arrived.set()
            case Notification(method="session/update", params=params):
                self._on_update(params)
            case Notification(method="$/cancel_request", params={"requestId": id_}) if id_ in self._asked:
                self._asked[id_].cancel()
            case Request():
                # Known from here on: the next line may withdraw it.
                self._asked[message.id] = scope = anyio.CancelScope()
                tasks.start_soon(self._answer, message, scope)
            case _:
                # Other notifications need no answer, and an agent's unreadable line has none either.
                return

    async def _answer(self, request: Request, scope: anyio.CancelScope) -> None:
        with scope, contextlib.suppress(AgentEndedError):
            try:
                result = await self._on_request(request.method, request.params)
                await self._send(result_line(request.id, encode(result)))
            except NotImplementedError:
                error = {"code": -32601, "message": f"Method not found: {request.method}"}
                await self._send(error_line(request.id, error))
            finally:
                del self._asked[request.id]

    async def _close(self) -> None:
        """End the agent as the protocol says (end of its stdin), and by signals if it does not."""
        await self._stdin.aclose()
        for stop in (self._process.terminate, self._process.kill, None):
            with anyio.move_on_after(_END_WITHIN):
                await self._process.wait()
                return
            if stop is not None:
                with contextlib.suppress(ProcessLookupError):
                    stop()


@asynccontextmanager
async def connect(
    command: Sequence[str],
    on_update: Callable[[dict[str, Any]], None],
    on_request: Callable[[str, Any], Awaitable[dict[str, Any]]],
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[AcpClient]:
    """Start an agent; at exit it has ended.

    `on_update` gets the params of each `session/update`; `on_request` answers the agent's own requests,
    raising NotImplementedError for a method it does not know. The agent gets a session of its own, so
    that Ctrl-C on the terminal reaches only its client. stderr stays the terminal's.
    """
    try:
        async with (
            await anyio.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None,
                env=env,
                start_new_session=True,
            ) as process,
            anyio.create_task_group() as tasks,
        ):
            client = AcpClient(process, on_update, on_request)
            tasks.start_soon(client._read, tasks)
            try:
                yield client
            finally:
                with anyio.CancelScope(shield=True):
                    await client._close()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The task group wraps whatever the caller's own block raised, which is not a group to the caller.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
