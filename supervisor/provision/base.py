"""What the front needs of whoever starts workers."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shared.frames import WorkerSpec


class CannotSpawn(Exception):
    """No worker could be started; `str()` says why."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: an exit code, or the number of the signal that killed it."""

    code: int | None
    signal: int | None

    @classmethod
    def from_wait_status(cls, status: int) -> Exit:
        """From waitpid(2)'s status."""
        if status & 0x7F:
            return cls(None, status & 0x7F)
        return cls(status >> 8 & 0xFF, None)

    @classmethod
    def from_returncode(cls, code: int) -> Exit:
        """From subprocess's returncode, where -N means signal N."""
        return cls(None, -code) if code < 0 else cls(code, None)

    def __str__(self) -> str:
        if self.signal is not None:
            try:
                return signal.Signals(self.signal).name
            except ValueError:
                return f"signal {self.signal}"
        return "unknown exit" if self.code is None else f"exit code {self.code}"


class WorkerHandle(Protocol):
    """One worker process. Its descriptors are released by `close`."""

    pid: int

    async def wait(self) -> Exit:
        """Returns when the process has ended (and, where that is ours to do, has been reaped)."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Signal this very process; nothing happens if it has ended."""
        ...

    def close(self) -> None:
        """Close its lifeline, which ends the worker if it still lives, and release descriptors."""
        ...


class WorkerProvisioner(Protocol):
    """Starts workers and sweeps what dead ones left behind."""

    async def spawn(self, spec: WorkerSpec, lock_fd: int) -> WorkerHandle:
        """Start the worker of `spec`; asked again for the same session and epoch, the same worker.

        Returns when the process exists, not when it is ready. Raises CannotSpawn.
        """
        ...

    def forget(self, session_id: str, epoch: int) -> None:
        """The worker's end was seen: its pid means nothing any more."""
        ...

    async def sweep(self, number: signal.Signals) -> int:
        """Signal every process that ended workers left behind; returns how many were still there."""
        ...

    async def aclose(self) -> None:
        """End all that was started, in any state, within about a second."""
        ...
