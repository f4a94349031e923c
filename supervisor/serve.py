"""`iac-code serve`: the shared agent of a user, one front for many clients on a Unix socket.

A session lives in the daemon, not in a connection. Started by hand, by systemd (with or without socket
activation) or by `iac-code acp --shared`. SIGHUP saves and starts the program anew, for an upgrade.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from shared.logs import open_log
from shared.paths import logs_dir
from supervisor.acp import StartError, run_front, start_zygote
from supervisor.client_loop import serve_client
from supervisor.connection import Connection
from supervisor.listening import AlreadyRuns, Listener, take_lock, told_by_starter
from supervisor.peers import same_user
from supervisor.pipe import socket_path
from supervisor.stdio import OutputBuffer
from supervisor.systemd import notify

if TYPE_CHECKING:
    import socket

    from anyio.abc import TaskGroup

    from supervisor.acp import Started
    from supervisor.front import Front
    from supervisor.server import Server

log = logging.getLogger(__name__)

MAX_CLIENTS: Final = 500
HELLO_WITHIN: Final = 30.0
"""Seconds until a connection must have sent `initialize`."""
LAST_REQUESTS: Final = 0.5
"""Seconds to read what a client had sent before it stopped taking answers."""
HIGH_WATER: Final = 64 * 2**20
"""Octets queued for one client; past it, or when it takes nothing for a while, its connection ends."""
_OVER_EXEC: Final = {signal.SIGHUP, signal.SIGTERM}
_PROGRAM: Final = [sys.executable, "-P", "-m", "supervisor.cli.main", "serve"]
_CHECK: Final = [sys.executable, "-P", "-c", "import sys, supervisor.server as s; sys.exit(s.check())"]
"""Run before a restart: what is installed by now says whether it could start."""


def main() -> int:
    """Serve until told to end; the exit code."""
    # While this starts (anew) a second SIGHUP must not end it, and a SIGTERM must do so in good order.
    # Handlers, since children would inherit what is ignored or blocked.
    early: list[int] = []
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OVER_EXEC)
    told = told_by_starter()
    notes: list[str] = []
    try:
        log_fd = open_log(logs_dir())
        lock = take_lock(told, notes.append)
    except AlreadyRuns as e:
        sys.stderr.write(f"iac-code serve: {e}.\n")
        return 1
    except (OSError, RuntimeError) as e:
        sys.stderr.write(f"iac-code serve: cannot start: {e}\n")
        return 1
    os.dup2(log_fd, 1)
    shared = _Shared(told, notes, log_fd, early)
    code = run_front(shared.serve, start_zygote(log_fd))
    if shared.listener is None:
        return code
    if shared.restarts:
        signal.pthread_sigmask(signal.SIG_BLOCK, _OVER_EXEC)
        os.execve(sys.executable, _PROGRAM, {**os.environ, **shared.listener.hand_over(lock)})
    shared.listener.close()
    return code


class _Shared:
    """The daemon: its socket, its clients, and how it is to end."""

    def __init__(self, told: dict[str, str], notes: list[str], log_fd: int, early: list[int]) -> None:
        self.listener: Listener | None = None
        self.restarts = False
        self._told = told
        self._notes = notes
        self._log_fd = log_fd
        self._early = early
        """Signals to end that came before the loop ran."""
        self._ended = anyio.Event()
        self._clients: set[Connection] = set()
        self._refused = 0

    async def serve(self, zygote: Started) -> int:
        """Until a signal ends it. Raises StartError."""
        from supervisor.server import Server

        async with anyio.create_task_group() as group:
            group.start_soon(self._end_on_signals)
            await anyio.lowlevel.checkpoint()  # who sees the socket may signal at once
            if self._early:
                self._ended.set()
            try:
                listener = self.listener = Listener(self._told, self._notes.append)
            except OSError as e:
                raise StartError(f"the socket {socket_path()} cannot be made: {e.strerror}.") from e
            server = await Server.start(self._log_fd, zygote, "both", group, is_shared=True)
            for note in self._notes:
                log.warning("%s", note)
            group.start_soon(notify, self._told)
            server.take_up_marked()
            try:
                async with anyio.create_task_group() as accepting:
                    accepting.start_soon(self._accept, listener.socket, server, accepting)
                    await self._ended.wait()
                    if not self.restarts:
                        listener.close()  # else who comes from now on waits for the next agent
                    accepting.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    await server.stop(self._clients, told=True)
            group.cancel_scope.cancel()
        return 0

    async def _end_on_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            async for number in received:
                if number == signal.SIGHUP:
                    if self._ended.is_set() or not await _can_restart():
                        continue
                    self.restarts = True
                elif self.restarts:
                    self.restarts = False  # told to end after it was told to start anew
                elif self._ended.is_set():
                    os._exit(1)
                self._ended.set()

    async def _accept(self, listening: socket.socket, server: Server, tasks: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listening)
            try:
                accepted, _ = listening.accept()
            except BlockingIOError:
                continue
            except OSError as e:
                log.error("a client could not be accepted: %s", e)
                await anyio.sleep(0.2)  # out of descriptors: some must be freed first
                continue
            accepted.setblocking(False)
            if not same_user(accepted):
                self._refuse(accepted, "it is another user's")
            elif len(self._clients) >= MAX_CLIENTS:
                self._refuse(accepted, f"{MAX_CLIENTS} are connected")
            else:
                tasks.start_soon(self._client, accepted, server)
                await anyio.lowlevel.checkpoint()

    def _refuse(self, accepted: socket.socket, why: str) -> None:
        accepted.close()
        self._refused += 1
        if self._refused & (self._refused - 1) == 0:  # 1, 2, 4, 8 …: a flood must not fill the log
            log.warning("a client was refused: %s (%d refused so far)", why, self._refused)

    async def _client(self, accepted: socket.socket, server: Server) -> None:
        client = Connection(OutputBuffer(accepted.fileno(), HIGH_WATER))
        self._clients.add(client)

        async def front() -> Front:
            return server.front

        async def drain(scope: anyio.CancelScope) -> None:
            await client.output.drain()
            await anyio.sleep(LAST_REQUESTS)
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
        except* Exception:  # a defect of ours costs this connection, never the daemon
            log.exception("a client's connection failed")
        finally:
            self._clients.discard(client)
            client.output.end()
            server.disconnected(client)
            accepted.close()


async def _can_restart() -> bool:
    """Whether what is installed by now would start, with the settings as they are by now."""
    checked = await anyio.run_process(_CHECK, check=False, stdout=subprocess.DEVNULL)
    if checked.returncode != 0:
        why = checked.stderr.decode(errors="replace").strip()[-500:]
        log.error("not started anew, since that would fail: %s", why)
    return checked.returncode == 0
