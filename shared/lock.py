"""Who has a session: a lock on its folder that the kernel frees when the last holder is gone.

The descriptor goes to the session's worker too, so a front that dies leaves the lock with the worker
for as long as that may still write. The file is never renamed or deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import psutil

if TYPE_CHECKING:
    from pathlib import Path

LOCK: Final = "lock"
_RETRY_SECONDS: Final = 0.02


class SessionHeld(Exception):
    """The session is open elsewhere. `pid`: who took it, or None where that process is gone or unknown."""

    def __init__(self, pid: int | None) -> None:
        super().__init__("The session is open in " + (f"process {pid}." if pid else "another process."))
        self.pid = pid


class SessionLock:
    """A lock that is held. Make one with `acquire`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        """Close-on-exec. Whoever has a duplicate of it holds the lock too."""

    @classmethod
    def acquire(cls, folder: Path) -> SessionLock:
        """Take the lock of a session's folder, at once or not at all.

        Raises SessionHeld when anyone has it, this process included; OSError (FileNotFoundError when
        the session is gone).
        """
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            os.close(fd)
            raise SessionHeld(holder) from None
        except OSError:
            os.close(fd)
            raise
        # The pid only tells people whom to look for; a full disk must not cost them the session.
        # Of fixed width, so that a shorter one leaves nothing of the one before.
        with contextlib.suppress(OSError):
            os.pwrite(fd, b"%-20d\n" % os.getpid(), 0)
        return cls(fd)

    def release(self) -> None:
        """Let go of it here. It stays locked while a duplicate of `fd` is open, in a worker say."""
        # No LOCK_UN: that would free it under the worker too.
        os.close(self.fd)


def _holder(fd: int) -> int | None:
    try:
        pid = int(os.pread(fd, 20, 0))
        return pid if pid > 0 and psutil.pid_exists(pid) else None
    except (ValueError, OverflowError, OSError):
        return None


async def acquire_within(folder: Path, seconds: float) -> SessionLock:
    """As `SessionLock.acquire`, but wait up to `seconds` for a holder that is about to end.

    It asks again every 20 ms: flock(2) has no wait that an event loop could join, and a thread that
    blocks in it could not be cancelled.
    """
    deadline = anyio.current_time() + seconds
    while True:
        try:
            return await anyio.to_thread.run_sync(SessionLock.acquire, folder)
        except SessionHeld:
            if anyio.current_time() + _RETRY_SECONDS > deadline:
                raise
        await anyio.sleep(_RETRY_SECONDS)
