"""Workers as plain subprocesses of the front: slow (2 s) and heavy, but they start anywhere.

The fallback while the zygote cannot start or where forking is unsafe. The front is a subreaper, so what
a dead worker left behind becomes a child of the front and is found there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from shared.processes import children, descendants, open_pidfd, signal_all
from supervisor.provision.base import CannotSpawn, Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from shared.frames import WorkerSpec


class SubprocessHandle:
    """A worker that is the front's own child."""

    def __init__(self, process: subprocess.Popen[bytes], lifeline: int) -> None:
        self.pid = process.pid
        self._process = process
        self._lifeline: int | None = lifeline
        self._pidfd = open_pidfd(process.pid)

    async def wait(self) -> Exit:
        """See WorkerHandle."""
        if self._pidfd is None:
            return Exit.from_returncode(await to_thread.run_sync(self._process.wait, abandon_on_cancel=True))
        await anyio.wait_readable(self._pidfd)
        return Exit.from_returncode(self._process.wait())

    def signal(self, number: signal.Signals) -> None:
        """See WorkerHandle."""
        self._process.send_signal(number)

    def close(self) -> None:
        """See WorkerHandle."""
        for fd in (self._lifeline, self._pidfd):
            if fd is not None:
                os.close(fd)
        self._lifeline = self._pidfd = None


class SubprocessProvisioner:
    """`spare` tells the pids below the front that are nobody's leftovers."""

    def __init__(self, spare: Callable[[], Collection[int]] = frozenset) -> None:
        self._spare = spare
        self._handles: dict[tuple[str, int], SubprocessHandle] = {}

    async def spawn(self, spec: WorkerSpec, lock_fd: int) -> SubprocessHandle:
        """See WorkerProvisioner."""
        key = (spec.session_id, spec.epoch)
        if key not in self._handles:
            self._handles = {k: h for k, h in self._handles.items() if k[0] != spec.session_id}
            self._handles[key] = self._start(spec, lock_fd)
        return self._handles[key]

    def _start(self, spec: WorkerSpec, lock_fd: int) -> SubprocessHandle:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as on_failure:
            try:
                lifeline_read, lifeline_write = os.pipe()
                theirs.callback(os.close, lifeline_read)
                on_failure.callback(os.close, lifeline_write)
                spec_read, spec_write = os.pipe()
                theirs.callback(os.close, spec_read)
                theirs.callback(os.close, spec_write)
                spec = spec.model_copy(update={"lifeline_fd": lifeline_read, "lock_fd": lock_fd})
                os.write(spec_write, spec.encode())  # under 64 KiB: a pipe takes it whole
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "worker.alone", str(spec_read)],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.STDOUT,
                    pass_fds=[fd for fd in (spec_read, lifeline_read, lock_fd) if fd >= 0],
                    start_new_session=True,
                )
            except OSError as e:
                raise CannotSpawn(f"The worker could not be started: {e.strerror}.") from e
            on_failure.pop_all()
        return SubprocessHandle(process, lifeline_write)

    def live_pids(self) -> set[int]:
        """Workers that have not been seen to end."""
        return {handle.pid for handle in self._handles.values()}

    async def sweep(self, number: signal.Signals) -> int:
        """See WorkerProvisioner."""
        left = descendants(os.getpid(), spare={*self.live_pids(), *self._spare()})
        signal_all(left, number)
        reap_orphans({*self.live_pids(), *self._spare()})
        return len(left)

    async def aclose(self) -> None:
        """See WorkerProvisioner."""
        deadline = anyio.current_time() + 1.0
        # Workers too: those of a dead zygote landed here, and one that is stopped cannot end by its lifeline.
        while left := descendants(os.getpid()):
            signal_all(left, signal.SIGKILL)
            if anyio.current_time() > deadline:
                return
            await anyio.sleep(0.005)


def reap_orphans(spare: Collection[int]) -> None:
    """Collect ended children that nobody waits for, so that no zombies gather."""
    for pid in children(os.getpid()):
        if pid not in spare:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
