"""Workers as tasks of this very process: the twin that makes a front testable in milliseconds.

What serves a session is handed in, so this module knows no worker. A signal cancels the task, as far
as a task can be killed.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import anyio

from supervisor.provision.base import Exit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from shared.frames import WorkerSpec


class TaskHandle:
    """A worker that is a task."""

    pid = os.getpid()

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._exit = Exit(0, None)

    async def run(self, serve: Callable[[WorkerSpec], Awaitable[None]], spec: WorkerSpec) -> None:
        """Serve until done or signalled; an exception counts as exit code 1."""
        try:
            with self._scope:
                await serve(spec)
        except Exception:  # noqa: BLE001  what a process would do: end, with its code to tell
            self._exit = Exit(1, None)
        finally:
            self._ended.set()

    async def wait(self) -> Exit:
        """See WorkerHandle."""
        await self._ended.wait()
        return self._exit

    def signal(self, number: signal.Signals) -> None:
        """See WorkerHandle. SIGUSR1 has nothing to dump here."""
        if number != signal.SIGUSR1 and not self._ended.is_set():
            self._exit = Exit(None, int(number))
            self._scope.cancel()

    def close(self) -> None:
        """See WorkerHandle."""
        self._scope.cancel()


class InProcessProvisioner:
    """See WorkerProvisioner."""

    def __init__(self, serve: Callable[[WorkerSpec], Awaitable[None]], tasks: TaskGroup) -> None:
        self._serve = serve
        self._tasks = tasks
        self._handles: dict[tuple[str, int], TaskHandle] = {}

    async def spawn(self, spec: WorkerSpec, lock_fd: int) -> TaskHandle:
        """See WorkerProvisioner. The lock is this process's own already."""
        key = (spec.session_id, spec.epoch)
        if key not in self._handles:
            self._handles[key] = TaskHandle()
            self._tasks.start_soon(self._handles[key].run, self._serve, spec)
        return self._handles[key]

    def forget(self, session_id: str, epoch: int) -> None:
        """See WorkerProvisioner."""
        self._handles.pop((session_id, epoch), None)

    async def sweep(self, number: signal.Signals) -> int:
        """See WorkerProvisioner. Tasks leave nothing behind."""
        return 0

    async def aclose(self) -> None:
        """See WorkerProvisioner."""
        for handle in list(self._handles.values()):
            handle.close()
