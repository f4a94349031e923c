"""`iac-code acp`: the front for one editor over stdio, from the first instruction to the last.

`initialize` is answered before ZeroMQ, pydantic's models and the rest are imported: an editor shows the
agent as there when it is answered, and what follows has a second core to come up on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from shared import jsonrpc
from shared.errors import INVALID_REQUEST, RequestError
from shared.logs import open_log
from shared.paths import logs_dir
from supervisor.connection import Connection
from supervisor.effects import Ticket
from supervisor.handshake import initialize_result
from supervisor.stdio import OutputBuffer, open_nonblocking, read_chunk, take_stdout

if TYPE_CHECKING:
    import socket
    import subprocess

    from shared.updates import Dialect
    from supervisor.server import Server

    Started = tuple[subprocess.Popen[bytes], socket.socket] | None

NOT_INITIALIZED = "The first request must be initialize."


def main(argv: list[str]) -> int:
    """Serve stdin and stdout until the client is gone; the process's exit code.

    `argv` are the words after `acp`. A start that fails is told in one line on stderr, with code 1.
    """
    dialect = _dialect(argv)
    if dialect is None:
        sys.stderr.write("iac-code acp: usage: iac-code acp [--dialect both|acp]\n")
        return 2
    try:
        log_fd = open_log(logs_dir())
        zygote = _start_zygote(log_fd)
    except OSError as e:
        sys.stderr.write(f"iac-code: cannot start: {e.strerror} ({e.filename}).\n")
        return 1
    stdout = open_nonblocking(take_stdout(log_fd))
    try:
        return anyio.run(_serve, stdout, log_fd, zygote, dialect)
    except StartError as e:
        sys.stderr.write(f"iac-code: cannot start: {e}\n")
        return 1


class StartError(Exception):
    """The front cannot start; `str()` is one line for a person."""


def _dialect(argv: list[str]) -> Dialect | None:
    chosen = os.environ.get("IAC_CODE_DIALECT") or "both"
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--dialect" and words:
            chosen = words.pop(0)
        elif word.startswith("--dialect="):
            chosen = word.removeprefix("--dialect=")
        else:
            return None
    return "acp" if chosen == "acp" else "both" if chosen == "both" else None


def _start_zygote(log_fd: int) -> Started:
    from supervisor.provision.zygote import start_process

    try:
        return start_process(log_fd)
    except OSError:
        return None  # no SEQPACKET here: workers start as plain subprocesses


async def _serve(stdout: int, log_fd: int, zygote: Started, dialect: Dialect) -> int:
    client = Connection(OutputBuffer(stdout))
    splitter = jsonrpc.LineSplitter()
    server: Server | None = None
    ended = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(client.output.drain)
        group.start_soon(_signals, ended)
        try:
            async with anyio.create_task_group() as reading:
                reading.start_soon(_cancel_when, ended, reading.cancel_scope)
                while chunk := await read_chunk(0):
                    for line in splitter.feed(chunk):
                        message = line if isinstance(line, jsonrpc.Malformed) else jsonrpc.parse(line)
                        if message is None:
                            continue
                        if _is_initialize(message):
                            _initialize(client, message)
                        elif not client.initialized:
                            _refuse(client, message)
                        else:
                            if server is None:
                                await client.output.flushed()
                                server = await _start_server(log_fd, zygote, dialect, group)
                            server.front.take(client, message)
                            # A task started for it runs up to its first wait before the next line is taken.
                            await anyio.lowlevel.checkpoint()
                    if server is None and client.initialized:
                        await client.output.flushed()
                        server = await _start_server(log_fd, zygote, dialect, group)
                reading.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                if server is not None:
                    await server.stop(client, told=ended.is_set())
                elif zygote is not None:
                    zygote[1].close()
        group.cancel_scope.cancel()
    return 0


def _is_initialize(message: jsonrpc.Message) -> bool:
    return isinstance(message, jsonrpc.Request) and message.method == "initialize"


def _initialize(client: Connection, message: jsonrpc.Message) -> None:
    assert isinstance(message, jsonrpc.Request)
    given = message.params if isinstance(message.params, dict) else {}
    capabilities = given.get("clientCapabilities")
    client.capabilities = capabilities if isinstance(capabilities, dict) else {}
    client.initialized = True
    ticket = Ticket(client.number, message.id)
    client.open[ticket] = lambda: None
    client.answer(ticket, initialize_result([]))


def _refuse(client: Connection, message: jsonrpc.Message) -> None:
    if isinstance(message, jsonrpc.Malformed):
        client.send(jsonrpc.error_line(message.id, message.error.to_json()))
    elif isinstance(message, jsonrpc.Request):
        client.send(jsonrpc.error_line(message.id, RequestError(INVALID_REQUEST, NOT_INITIALIZED).to_json()))


async def _start_server(log_fd: int, zygote: Started, dialect: Dialect, group: anyio.abc.TaskGroup) -> Server:
    from supervisor.server import Server

    return await Server.start(log_fd, zygote, dialect, group)


async def _signals(ended: anyio.Event) -> None:
    """The first SIGTERM or SIGINT ends in good order, a second one at once."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async for _ in received:
            if ended.is_set():
                os._exit(1)
            ended.set()


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
