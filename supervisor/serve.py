"""`iac-code serve`: the shared agent of a user, one front for many clients on a Unix socket.

A session lives in the daemon, not in a connection. Started by hand, by systemd (with or without socket
activation) or by `iac-code acp --shared`. SIGHUP saves and starts the program anew, for an upgrade.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from shared.logs import open_log
from shared.paths import logs_dir, runtime_root
from supervisor.acp import StartError, run_front, start_zygote
from supervisor.client_loop import serve_client
from supervisor.connection import Connection
from supervisor.peers import credentials, same_user
from supervisor.pipe import connect, socket_path
from supervisor.stdio import OutputBuffer

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from supervisor.acp import Started
    from supervisor.front import Front
    from supervisor.server import Server

log = logging.getLogger(__name__)

MAX_CLIENTS: Final = 200
HELLO_WITHIN: Final = 30.0
"""Seconds until a connection must have sent `initialize`."""
HIGH_WATER: Final = 64 * 2**20
"""Octets queued for one client; past it, or when it takes nothing for a while, its connection ends."""
_FIRST_PASSED_FD: Final = 3
_RESTART: Final = 75
"""Told by `_serve` when it got SIGHUP; never an exit code of the command."""


def main() -> int:
    """Serve until told to end; the exit code."""
    try:
        log_fd = open_log(logs_dir())
        lock = os.open(runtime_root() / "shared.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("iac-code serve: a shared agent of yours runs already (`iac-code ps`).\n")
        return 1
    except (OSError, RuntimeError) as e:
        sys.stderr.write(f"iac-code serve: cannot start: {e}\n")
        return 1
    os.dup2(log_fd, 1)
    code = run_front(_serve, log_fd, start_zygote(log_fd))
    if code == _RESTART:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "supervisor.cli.main", "serve"])
    if not _is_passed():
        with contextlib.suppress(OSError):
            socket_path().unlink()
    return code


def _is_passed() -> bool:
    return os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1"


def _listen() -> socket.socket:
    """The socket that systemd passed, or one of our own; the lock says that a file in its place is stale."""
    if _is_passed():
        # A duplicate: the passed one stays open, so clients queue there while this program starts anew.
        passed = socket.socket(fileno=os.dup(_FIRST_PASSED_FD))
        passed.setblocking(False)
        return passed
    path = socket_path()
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(old)
    listener.listen(64)
    listener.setblocking(False)
    return listener


async def _serve(log_fd: int, zygote: Started) -> int:
    from supervisor.server import Server

    clients: set[Connection] = set()
    ended = anyio.Event()
    code = 0

    async def end_on_signals() -> None:
        nonlocal code
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            async for number in received:
                if ended.is_set():
                    os._exit(1)
                code = _RESTART if number == signal.SIGHUP else 0
                ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(end_on_signals)
        await anyio.lowlevel.checkpoint()  # who sees the socket may signal at once
        try:
            listener = _listen()
        except OSError as e:
            raise StartError(f"the socket {socket_path()} cannot be made: {e.strerror}.") from e
        server = await Server.start(log_fd, zygote, "both", group)
        group.start_soon(_notify_systemd)
        await server.resume_marked()
        try:
            async with anyio.create_task_group() as accepting:
                accepting.start_soon(_accept, listener, server, clients, accepting)
                await ended.wait()
                listener.close()  # who comes from now on must wait for the next agent
                accepting.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await server.stop(clients, told=True)
        group.cancel_scope.cancel()
    return code


async def _accept(
    listener: socket.socket, server: Server, clients: set[Connection], tasks: TaskGroup
) -> None:
    while True:
        await anyio.wait_readable(listener)
        try:
            accepted, _ = listener.accept()
        except BlockingIOError:
            continue
        except OSError as e:
            log.error("a client could not be accepted: %s", e)
            await anyio.sleep(0.2)  # out of descriptors: some must be freed first
            continue
        accepted.setblocking(False)
        if not same_user(accepted):
            log.warning("a client of another user was refused")
            accepted.close()
        elif len(clients) >= MAX_CLIENTS:
            log.warning("a client was refused: %d are connected", len(clients))
            accepted.close()
        else:
            tasks.start_soon(_client, accepted, server, clients)


async def _client(accepted: socket.socket, server: Server, clients: set[Connection]) -> None:
    client = Connection(OutputBuffer(accepted.fileno(), HIGH_WATER))
    clients.add(client)

    async def front() -> Front:
        return server.front

    async def drain(scope: anyio.CancelScope) -> None:
        await client.output.drain()
        scope.cancel()  # it takes nothing any more: the connection is over

    async def greeted(scope: anyio.CancelScope) -> None:
        await anyio.sleep(HELLO_WITHIN)
        if not client.initialized:
            log.warning("a client sent no initialize within %g s; its connection ends", HELLO_WITHIN)
            scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(drain, group.cancel_scope)
            group.start_soon(greeted, group.cancel_scope)
            await serve_client(client, accepted.fileno(), front)
            group.cancel_scope.cancel()
    finally:
        clients.discard(client)
        client.output.end()
        server.disconnected(client)
        accepted.close()


async def _notify_systemd() -> None:
    """READY, then a sign of life from this very loop as often as systemd's watchdog wants one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    watchdog = int(os.environ.get("WATCHDOG_USEC", "0")) / 1e6
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.connect("\0" + address[1:] if address.startswith("@") else address)
        told.send(b"READY=1")
        while watchdog:
            await anyio.sleep(watchdog / 3)
            told.send(b"WATCHDOG=1")


def stop() -> int:
    """`iac-code stop`: end the shared agent, saved and clean; returns when it is gone."""
    agent = connect()
    if agent is None:
        sys.stderr.write("iac-code stop: no shared agent runs.\n")
        return 1
    with agent:
        found = credentials(agent)
    if found is None:
        sys.stderr.write("iac-code stop: this system does not tell whose socket it is; end it by its pid.\n")
        return 1
    pid = found[0]
    pidfd = os.pidfd_open(pid)
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    select.select([pidfd], [], [], 10)
    os.close(pidfd)
    sys.stdout.write(f"The shared agent (process {pid}) has ended.\n")
    return 0
