"""One started process: its pipes, its end, and the events that its supervisor waits for.

Knows nothing of other calls and sends no signal; `worker.tools.processes` ends it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import psutil
from anyio import lowlevel, to_thread

from shared.processes import open_pidfd
from worker.landlock import start_restricted
from worker.leftovers import MARKER, Claim, marking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    Receive = Callable[[bytes], Awaitable[None]]
    Finish = Callable[[], Awaitable[None]]

_PIPE_SIZE: Final = 1 << 20
_READ_SIZE: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended.

    `returncode` is as in `subprocess`: negative for a signal. `memory` is the resident size in bytes
    for which it was killed. `left` counts processes that it left running and that were ended.
    """

    returncode: int
    timed_out: bool = False
    memory: int | None = None
    left: int = 0


@dataclass(slots=True, eq=False)
class Child:
    """A live process that leads a session and group of its own.

    It is not waited for before all it started is gone, so that its pid, which names the group and the
    session, cannot become another's.
    """

    popen: subprocess.Popen[bytes]
    claim: Claim
    created: float
    """psutil's creation time, to compare with that of others."""
    background: bool
    time_limit: float | None
    """Seconds."""
    pipes: dict[int, Receive]
    finish: Finish | None
    """Awaited when no more output can come, also of a call that was cancelled."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Set when it exited or was asked to stop."""
    output_ended: anyio.Event = field(default_factory=anyio.Event)
    """Set when its stdout reached its end; the process may live on."""
    drained: anyio.Event = field(default_factory=anyio.Event)
    """Set when every pipe reached its end."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set when it and all that it started are gone, and `ended` tells how."""
    scope: anyio.CancelScope = field(default_factory=lambda: anyio.CancelScope(shield=True))
    exited: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has exited; what it started may live on."""
    stop_grace: float | None = None
    """Seconds between SIGTERM and SIGKILL, once it was asked to stop."""
    deaf: bool = False
    """Nobody wants its output any more; it is still read, so that a full pipe does not hold up its end."""
    memory: int | None = None
    failure: Exception | None = None
    """What its receiver, or `finish`, raised."""
    ended: Ended | None = None
    _output: int = field(init=False)

    def __post_init__(self) -> None:
        self._output = next(iter(self.pipes))

    @property
    def pid(self) -> int:
        """Also the id of its group and of its session."""
        return self.popen.pid

    def stop(self, grace: float) -> None:
        """Ask its supervisor to end it. Returns at once."""
        if self.stop_grace is None:
            self.stop_grace = grace
        self.changed.set()

    async def watch_exit(self) -> None:
        """Return when the process has exited; it stays a zombie. No thread where the kernel has pidfds."""
        fd = open_pidfd(self.pid)
        if fd is None:
            await to_thread.run_sync(
                os.waitid, os.P_PID, self.pid, os.WEXITED | os.WNOWAIT, abandon_on_cancel=True
            )
        else:
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
        self.exited.set()
        self.changed.set()

    async def read_pipe(self, fd: int) -> None:
        """Hand on what comes from one pipe until its last writer is gone."""
        receive = self.pipes[fd]
        try:
            while True:
                try:
                    data = os.read(fd, _READ_SIZE)
                except BlockingIOError:
                    await anyio.wait_readable(fd)
                    continue
                if not data:
                    break
                if not self.deaf:
                    await receive(data)
                # A flood is always readable: without this the loop would do nothing else.
                await lowlevel.checkpoint()
        except Exception as e:  # noqa: BLE001 - a receiver may raise anything; run() raises it to the caller
            self.failure = e
            self.stop(0)
        finally:
            os.close(fd)
            del self.pipes[fd]
            if fd == self._output:
                self.output_ended.set()
            if not self.pipes:
                self.drained.set()


def spawn(
    argv: Sequence[str],
    token: str,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    receive: Receive,
    receive_errors: Receive | None,
    finish: Finish | None,
    stdin: int,
    time_limit: float | None,
    background: bool,
    rules: int | None = None,
) -> Child:
    """Start a process. Raises OSError, and ValueError for what cannot be in a command line.

    `rules` hold it and what it starts to a sandbox: see `worker.landlock`.

    Measured here: Popen with a new session takes the vfork path and returns in 0.14 ms, also from a
    large process, so it runs on the loop; a `preexec_fn` makes it fork (4.6 ms until `true` has run,
    against 1.1). In a thread it would hold the GIL all the same.
    """
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as ours:
        reads, writes = [], []
        for _ in (receive, receive_errors) if receive_errors else (receive,):
            read, write = os.pipe()
            on_failure.callback(os.close, read)
            ours.callback(os.close, write)
            reads.append(read)
            writes.append(write)
            os.set_blocking(read, False)
            with contextlib.suppress(OSError, AttributeError):
                # Fewer wake-ups in a flood. Refused when the user's pipes together are too large.
                fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        names = frozenset(f"pipe:[{os.fstat(fd).st_ino}]" for fd in reads)

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=writes[0],
                stderr=writes[-1],
                cwd=cwd,
                env={**environment, MARKER: token},
                start_new_session=True,
            )

        with marking(token):
            popen = start() if rules is None else start_restricted(rules, start)
        on_failure.pop_all()
    return Child(
        popen,
        Claim(token, popen.pid, names),
        psutil.Process(popen.pid).create_time(),
        background,
        time_limit,
        dict(zip(reads, (receive, receive_errors or receive), strict=False)),
        finish,
    )
