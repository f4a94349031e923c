"""The double's HTTP side: one asyncio server, HTTP/1.1 with keep-alive and chunked bodies."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from tests.double.cache import Counted, PromptCache
from tests.double.directives import Script, script
from tests.double.replies import PING, End, Pause, render
from tests.double.rules import problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    429: "Too Many Requests",
}
_FAULTS = ("fail", "drop", "cuttool", "error")
_PING_SECONDS = 1.0

_TOLD_TO_FAIL = "The double was told to fail"
_TOO_LONG = "prompt is too long"


@dataclass
class Received:
    """One request as it came, and what was answered. `credential` says which header had one."""

    number: int
    path: str
    headers: dict[str, str]
    credential: str
    body: Any
    status: int = 200
    error: str | None = None
    usage: dict[str, int] = field(default_factory=dict)


class Double:
    """The service. `requests` is what came, in order; `window` is in tokens.

    The key `refused` is answered with 401 and `forbidden` with 403; every other one is good.
    """

    def __init__(self, log: TextIO | None = None, window: int = 1_000_000) -> None:
        self.requests: list[Received] = []
        self.window = window
        self.port = 0
        self.most_at_once = 0
        """The most answers that were under way at a time; a test may set it back."""
        self._under_way = 0
        self._log = log
        self._cache = PromptCache()
        self._attempts: dict[tuple[str, int, str], int] = {}
        self.connections: set[asyncio.Task[None]] = set()
        """One task for each open connection."""

    @property
    def base_url(self) -> str:
        """For ANTHROPIC_BASE_URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def refusals(self) -> list[str]:
        """What was wrong with each request that was refused as invalid: none, if the product is right."""
        return [
            request.error or ""
            for request in self.requests
            if request.status == 400 and not (request.error or "").startswith((_TOLD_TO_FAIL, _TOO_LONG))
        ]

    @property
    def too_long(self) -> int:
        """So many requests did not fit into the window."""
        return sum((request.error or "").startswith(_TOO_LONG) for request in self.requests)

    async def start(self, port: int = 0) -> asyncio.Server:
        """Listen on loopback."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=64 * 1024)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def stop(self, server: asyncio.Server) -> None:
        """Stop listening and drop every connection."""
        server.close()
        await self.hang_up()
        await server.wait_closed()

    async def hang_up(self) -> None:
        """Drop every connection, also those whose client went away during a long answer."""
        connections = list(self.connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self._under_way += 1
                self.most_at_once = max(self.most_at_once, self._under_way)
                try:
                    if not await self.answer(request, writer):
                        break
                finally:
                    self._under_way -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as clients do
        except asyncio.CancelledError:
            pass  # `stop`; asyncio's stream server logs a cancelled handler as an error
        finally:
            self.connections.discard(task)
            writer.close()

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        request.number = len(self.requests)
        self.requests.append(request)
        counted = Counted(0, 0, 0)
        plan = Script()
        refusal = self._refusal(request)
        if refusal is None:
            counted = self._cache.count(request.body)
            if counted.total > self.window:
                wrong = f"{_TOO_LONG}: {counted.total} tokens > {self.window} maximum"
                refusal = (400, "invalid_request_error", wrong, None)
        faults: set[str] = set()
        if refusal is None:
            plan = script(request.body["messages"])
            faults, refusal = self._faults(plan)
        if refusal is not None:
            return await self._refuse(request, writer, *refusal)
        request.usage = counted._asdict()
        self._note(request)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            b"request-id: req_double_%d\r\n\r\n" % request.number
        )
        for piece in render(request.body["model"], plan.directives, counted, faults):
            if isinstance(piece, Pause):
                await self._pause(piece, writer)
            elif isinstance(piece, End):
                if piece.how == "torn":
                    return False
                writer.write(b"0\r\n\r\n")
            else:
                writer.write(_chunk(piece))
            await writer.drain()
        return True

    def _refusal(self, request: Received) -> tuple[int, str, str, str | None] | None:
        """Status, type, message and retry-after of an error answer, or None."""
        if request.path.partition("?")[0] != "/v1/messages":
            return 404, "not_found_error", f"{request.path} does not exist", None
        if request.credential in ("", "refused"):
            return 401, "authentication_error", "invalid x-api-key", None
        if request.credential == "forbidden":
            return 403, "permission_error", "Your API key does not have permission to use the model.", None
        if "anthropic-version" not in request.headers:
            return 400, "invalid_request_error", "anthropic-version: header is required", None
        wrong = problem(request.body)
        return (400, "invalid_request_error", wrong, None) if wrong else None

    def _faults(self, plan: Script) -> tuple[set[str], tuple[int, str, str, str | None] | None]:
        """The faults that hold for this attempt at a reply; a `@fail` among them as a refusal."""
        faults: set[str] = set()
        for number, directive in enumerate(plan.directives):
            if directive.word not in _FAULTS:
                continue
            key = (*plan.key, f"{number} {directive.word}")
            times = directive.times({"fail": 2, "error": 1}.get(directive.word, 0))
            self._attempts[key] = self._attempts.get(key, 0) + 1
            if self._attempts[key] > times:
                continue
            if directive.word == "fail":
                given = directive.arguments()
                after = given[3] if len(given) > 3 else "0"
                return faults, (int(given[0]), given[1], f"{_TOLD_TO_FAIL}: {given[1]}", after)
            faults.add(directive.word)
        return faults, None

    async def _refuse(
        self,
        request: Received,
        writer: asyncio.StreamWriter,
        status: int,
        kind: str,
        message: str,
        after: str | None,
    ) -> bool:
        request.status, request.error = status, message
        self._note(request)
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        wait = f"retry-after: {after}\r\n" if after is not None else ""
        writer.write(
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\ncontent-type: application/json\r\n{wait}"
            f"request-id: req_double_{request.number}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        return True

    async def _pause(self, pause: Pause, writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        left = pause.seconds
        while left > 0:
            step = min(left, _PING_SECONDS) if pause.pings else left
            await asyncio.sleep(step)
            left -= step
            if pause.pings:
                writer.write(_chunk(PING))

    def _note(self, request: Received) -> None:
        if self._log is not None:
            line = asdict(request)
            line["credential"] = bool(request.credential)
            self._log.write(json.dumps(line) + "\n")
            self._log.flush()


@asynccontextmanager
async def serving(window: int = 1_000_000) -> AsyncIterator[Double]:
    """A double in this process for as long as the block runs."""
    double = Double(window=window)
    server = await double.start()
    try:
        yield double
    finally:
        await double.stop(server)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """The next request of a connection, or None at its end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    data = await reader.readexactly(int(headers.get("content-length", "0")))
    body: Any = None
    with contextlib.suppress(ValueError):
        body = json.loads(data)
    credential = headers.pop("x-api-key", "") or headers.pop("authorization", "").removeprefix("Bearer ")
    return Received(0, first.split(" ")[1], headers, credential, body)
