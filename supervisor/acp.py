"""`iac-code acp`: the front for one editor over stdio, until its client is gone.

`initialize` is answered before ZeroMQ, pydantic's models and the rest are imported: an editor shows the
agent as there when it is answered, and what follows has a second core to come up on.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

import anyio

from shared.logs import open_log
from shared.paths import logs_dir
from supervisor.client_loop import serve_client
from supervisor.connection import Connection
from supervisor.nonblocking import open_nonblocking
from supervisor.stdio import OutputBuffer, take_stdout

if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Awaitable, Callable

    from shared.updates import Dialect
    from supervisor.front import Front
    from supervisor.greeting import Greeting
    from supervisor.server import Server

    Started = tuple[subprocess.Popen[bytes], socket.socket] | None


def main(dialect: Dialect, greeting: Greeting) -> int:
    """Serve stdin and stdout until the client is gone; the process's exit code.

    `greeting` is what was done with the client's first input.

    A start that fails is told in one line on stderr, with code 1.
    """
    try:
        log_fd = open_log(logs_dir())
        zygote = start_zygote(log_fd)
    except OSError as e:
        sys.stderr.write(f"iac-code: cannot start: {e.strerror} ({e.filename}).\n")
        return 1
    except RuntimeError as e:  # neither HOME nor the system's list of users names a home
        sys.stderr.write(f"iac-code: cannot start: {e} Set HOME or IAC_CODE_CONFIG_DIR.\n")
        return 1
    stdout = open_nonblocking(take_stdout(log_fd))
    code = run_front(_serve, stdout, log_fd, zygote, dialect, greeting)
    logging.shutdown()
    # Nothing is left to be done, and the interpreter's own end takes most of an idle agent's 100 ms.
    os._exit(code)


def run_front(serve: Callable[..., Awaitable[int]], *args: object) -> int:
    """Run a front to its exit code; a start that fails is told in one line on stderr."""
    code = 1
    try:
        code = anyio.run(serve, *args)
    except* StartError as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        sys.stderr.write(f"iac-code: cannot start: {error}\n")
    return code


class StartError(Exception):
    """The front cannot start; `str()` is one line for a person."""


def start_zygote(log_fd: int) -> Started:
    """The zygote, or None where the kernel lacks what it needs."""
    from supervisor.provision.zygote import start_process

    try:
        return start_process(log_fd)
    except OSError:
        return None  # no SEQPACKET here: workers start as plain subprocesses


async def _serve(stdout: int, log_fd: int, zygote: Started, dialect: Dialect, greeting: Greeting) -> int:
    client = Connection(OutputBuffer(stdout))
    if greeting.capabilities is not None:
        client.capabilities = greeting.capabilities
        client.initialized = True
        if greeting.unwritten:
            client.send(greeting.unwritten)
    server: Server | None = None
    ended = anyio.Event()
    async with anyio.create_task_group() as group:

        async def front() -> Front:
            nonlocal server
            from supervisor.server import Server

            server = await Server.start(log_fd, zygote, dialect, group)
            return server.front

        group.start_soon(client.output.drain)
        group.start_soon(end_on_signals, ended)
        try:
            async with anyio.create_task_group() as reading:
                reading.start_soon(cancel_when, ended, reading.cancel_scope)
                await serve_client(client, 0, front, greeting.unread)
                reading.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                if server is not None:
                    await server.stop([client], told=ended.is_set())
                elif zygote is not None:
                    zygote[1].close()
        group.cancel_scope.cancel()
    return 0


async def end_on_signals(ended: anyio.Event) -> None:
    """The first SIGTERM or SIGINT ends in good order, a second one at once."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async for _ in received:
            if ended.is_set():
                os._exit(1)
            ended.set()


async def cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel the scope when the event comes."""
    await event.wait()
    scope.cancel()
