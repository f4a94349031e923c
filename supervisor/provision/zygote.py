"""Workers forked from a warmed zygote: ready in tens of milliseconds, sharing its imports' memory.

The zygote is started with the front, in a session of its own. One SEQPACKET socket pair carries fork
requests and their descriptors down, pids with their pidfds and exit statuses up; it is the zygote's
lifeline too. If the zygote dies, its workers land on the front (a subreaper) and go on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import anyio
from pydantic_core import from_json, to_json

from shared.processes import descendants, open_pidfd, signal_all
from supervisor.provision.base import CannotSpawn, Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.frames import WorkerSpec

log = logging.getLogger(__name__)

WARM_WITHIN: Final = 30.0
"""Seconds for the zygote's imports; 2 is usual, a cold disk on a busy machine takes more."""
ANSWER_WITHIN: Final = 5.0
"""Seconds for a fork (12 ms) or a sweep; a zygote that takes longer is stopped or hangs, and is replaced."""
MAX_MESSAGE: Final = 64 * 1024


def start_process(log_fd: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Exec the zygote. Called first of all, since it takes seconds to warm while the front goes on.

    Raises OSError where the kernel lacks what it needs (SOCK_SEQPACKET).
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "worker.zygote", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=log_fd,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


class ForkedHandle:
    """A worker that is the zygote's child."""

    def __init__(self, pid: int, pidfd: int, lifeline: int, orphaned: Callable[[], bool]) -> None:
        self.pid = pid
        self._pidfd: int | None = pidfd
        self._lifeline: int | None = lifeline
        self._orphaned = orphaned
        self._exit: Exit | None = None
        self._told = anyio.Event()

    def ended(self, status: Exit) -> None:
        """The zygote reaped it."""
        self._exit = status
        self._told.set()

    async def wait(self) -> Exit:
        """See WorkerHandle. Sees the end by pidfd in about 2 ms; how it ended, the zygote tells."""
        assert self._pidfd is not None
        await anyio.wait_readable(self._pidfd)
        with anyio.move_on_after(0.5):
            while self._exit is None and not self._orphaned():
                with anyio.move_on_after(0.02):
                    await self._told.wait()
        if self._exit is None:
            self._exit = _reaped(self._pidfd)
        return self._exit

    def signal(self, number: signal.Signals) -> None:
        """See WorkerHandle."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        """See WorkerHandle."""
        for fd in (self._lifeline, self._pidfd):
            if fd is not None:
                os.close(fd)
        self._lifeline = self._pidfd = None


def _reaped(pidfd: int) -> Exit:
    """How a process ended that became our child when its zygote died; unknown if it was not ours to reap."""
    with contextlib.suppress(ChildProcessError):
        found = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
        if found is not None:
            killed = found.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            return Exit(None, found.si_status) if killed else Exit(found.si_status, None)
    return Exit(None, None)


class Zygote:
    """One zygote process and what it has forked."""

    def __init__(self, process: subprocess.Popen[bytes], link: socket.socket) -> None:
        self.pid = process.pid
        self._process = process
        self._link = link
        self._pidfd = open_pidfd(process.pid)
        self._warm = anyio.Event()
        self._sdk = False
        """It has imported the SDK too."""
        self._dead = anyio.Event()
        self._gone = anyio.Event()
        self._swept: list[int] = []
        self._sweep_told = anyio.Event()
        self._asking = anyio.Lock()
        self._forked: dict[tuple[str, int], ForkedHandle] = {}
        self._fork_told = anyio.Event()
        self._refused: str | None = None
        self._pending: tuple[tuple[str, int], int] | None = None

    @property
    def dead(self) -> bool:
        """It ended, or its link broke."""
        return self._dead.is_set()

    @property
    def warm(self) -> bool:
        """It has imported all that workers need."""
        return self._warm.is_set() and not self.dead

    async def run(self) -> None:
        """Read what the zygote says until it is dead, then reap it."""
        while not self.dead:
            await anyio.wait_readable(self._link)
            try:
                data, fds, _flags, _address = socket.recv_fds(
                    self._link, MAX_MESSAGE, 1, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                continue
            except OSError:
                data, fds = b"", []
            if not data:
                self._dead.set()
                break
            self._take(from_json(data), fds)
        self._fork_told.set()
        self._sweep_told.set()
        if self._pidfd is not None:
            await anyio.wait_readable(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        status = Exit.from_returncode(self._process.wait())
        self._gone.set()
        self._link.close()
        log.warning("the zygote ended: %s", status, extra={"fields": {"zygote": self.pid}})

    def _take(self, message: dict[str, Any], fds: list[int]) -> None:
        match message["op"]:
            case "warm":
                self._sdk = message["sdk"]
                self._warm.set()
            case "forked":
                assert self._pending is not None
                key, lifeline = self._pending
                if fds:
                    handle = ForkedHandle(message["pid"], fds[0], lifeline, lambda: self.dead)
                    self._forked[key] = handle
                else:
                    # Without its lifeline, which is closed now, the worker ends.
                    self._refused = "The front has no file descriptor left for it."
                self._fork_told.set()
            case "refused":
                self._refused = message["reason"]
                self._fork_told.set()
            case "exited":
                for key, handle in list(self._forked.items()):
                    if handle.pid == message["pid"]:
                        del self._forked[key]
                        handle.ended(Exit.from_wait_status(message["status"]))
            case "swept":
                self._swept.append(message["left"])
                self._sweep_told.set()

    async def fork(self, spec: WorkerSpec, lock_fd: int) -> ForkedHandle:
        """Fork a worker. Waits for the zygote to be warm. Raises CannotSpawn."""
        with anyio.move_on_after(WARM_WITHIN):
            async with anyio.create_task_group() as group:
                for event in (self._warm, self._dead):
                    group.start_soon(_first, event, group.cancel_scope)
        if not self.warm:
            raise CannotSpawn("The zygote did not start. See the log.")
        async with self._asking:
            key = (spec.session_id, spec.epoch)
            if key in self._forked:
                return self._forked[key]
            lifeline_read, lifeline_write = os.pipe()
            self._fork_told, self._refused = anyio.Event(), None
            self._pending = (key, lifeline_write)
            fds = [lifeline_read, lock_fd] if lock_fd >= 0 else [lifeline_read]
            try:
                within = ANSWER_WITHIN if self._sdk or not spec.sdk else WARM_WITHIN
                message = {"op": "fork", "spec": spec.encode().decode()}
                await self._ask(message, fds, self._fork_told, within)
                self._sdk |= spec.sdk
            except CannotSpawn:
                os.close(lifeline_write)
                raise
            finally:
                os.close(lifeline_read)
            if key not in self._forked:
                os.close(lifeline_write)
                raise CannotSpawn(self._refused or "The zygote died while a worker was started.")
            return self._forked[key]

    async def sweep(self, number: signal.Signals) -> int:
        """Signal what ended workers left below the zygote; how many were there. 0 if it is dead."""
        async with self._asking:
            if not self.warm:  # nothing is below it yet, and it would not answer before it is
                return 0
            self._sweep_told = anyio.Event()
            self._swept.clear()
            with contextlib.suppress(CannotSpawn):
                await self._ask({"op": "sweep", "signal": int(number)}, [], self._sweep_told, ANSWER_WITHIN)
            return self._swept[-1] if self._swept else 0

    async def _ask(self, message: dict[str, Any], fds: list[int], told: anyio.Event, within: float) -> None:
        # Shielded: an answer that nobody waited for would be taken for the next request's.
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(within):
                await self._send(message, fds)
                await told.wait()
                return
            log.error("the zygote does not answer and is killed", extra={"fields": {"zygote": self.pid}})
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await told.wait()

    async def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        while True:
            try:
                socket.send_fds(self._link, [to_json(message)], fds)
            except BlockingIOError:
                await anyio.wait_writable(self._link)
            except OSError as e:
                raise CannotSpawn(f"The zygote cannot be reached: {e.strerror}.") from e
            else:
                return

    def kill(self) -> None:
        """SIGKILL it with all that is below it, for when closing its lifeline was not enough."""
        signal_all(descendants(self.pid), signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def let_go(self) -> None:
        """Close the lifeline: the zygote kills its whole tree and ends."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    async def gone(self) -> None:
        """Returns when the zygote has ended and `run` has reaped it."""
        await self._gone.wait()


async def _first(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
