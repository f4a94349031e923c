"""`iac-code stop`: ends the shared agent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from typing import Final

from supervisor.cli.failure import CommandError
from supervisor.listening import holder, lock_path

_WITHIN: Final = 10.0
"""Seconds for the agent to save what runs, and to end."""


def stop() -> int:
    """End the shared agent, saved and clean; it is gone when this returns. Raises CommandError."""
    try:
        lock = os.open(lock_path(), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise CommandError("No shared agent runs.") from None
    try:
        if _is_free(lock):
            raise CommandError("No shared agent runs.")
        pid = holder(lock)
        if not pid:
            raise CommandError("The shared agent is just starting; try again.")
        with contextlib.suppress(ProcessLookupError):  # it was ending already
            os.kill(pid, signal.SIGTERM)
        # The lock is free when the process is gone; flock(2) has no wait with a time-out.
        deadline = time.monotonic() + _WITHIN
        while not _is_free(lock):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The shared agent (process {pid}) has not ended within {_WITHIN:g} s. "
                    f"`kill -KILL {pid}` ends it: its sessions are on disk. `iac-code logs` may say why."
                )
            time.sleep(0.02)
    finally:
        os.close(lock)
    sys.stdout.write(f"The shared agent (process {pid}) has ended.\n")
    return 0


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True
