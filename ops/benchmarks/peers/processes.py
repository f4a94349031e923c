"""The processes of an agent, also those that set themselves apart from it, and their memory."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

import psutil

from shared.processes import descendants

if TYPE_CHECKING:
    from pathlib import Path


def tree(pid: int, home: Path) -> list[psutil.Process]:
    """All that is below `pid`, and all that works below the throw-away `home`: by folder or open file."""
    found = {process.pid: process for process in _alive([pid])}
    found |= {process.pid: process for process in descendants(pid)}
    found |= {process.pid: process for process in at_home(home)}
    return list(found.values())


def at_home(home: Path) -> list[psutil.Process]:
    """All processes with a working directory or an open file below `home`, but for this one."""
    below = f"{home}/"
    return [
        process
        for process in _alive(psutil.pids())
        if process.pid != os.getpid() and any(f"{path}/".startswith(below) for path in _used(process.pid))
    ]


def pss(processes: list[psutil.Process]) -> float:
    """MB (2**20) that they hold together, pages that they share counted once."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


def end(processes: list[psutil.Process]) -> None:
    """SIGKILL each. psutil knows a pid that was given to another process since."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)


def _alive(pids: list[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _used(pid: int) -> list[str]:
    used = []
    with contextlib.suppress(OSError):
        used.append(os.readlink(f"/proc/{pid}/cwd"))
        used += [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return used
