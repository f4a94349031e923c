"""Processes below us: who they are, and how they are ended, with all that they left behind.

Linux first: a subreaper keeps orphans below it, a pidfd names a process without a race. Where the
kernel lacks one, the functions say so by their result, and callers go on without.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Collection

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process (prctl(2)). False where that does not exist."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int = signal.SIGKILL) -> bool:
    """Be signalled when the thread that started this process ends (prctl(2)); 0 takes it back.

    Not inherited by children. False where that does not exist.
    """
    return _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when `pid` ends, or None where there are none or it is gone."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def descendants(pid: int, spare: Collection[int] = ()) -> list[psutil.Process]:
    """All live processes below `pid`, children first, without those below (and including) a spared pid."""
    found: list[psutil.Process] = []
    pending = [pid]
    while pending:
        for child in children(pending.pop()):
            if child not in spare:
                pending.append(child)
                with contextlib.suppress(psutil.NoSuchProcess):
                    process = psutil.Process(child)
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
    return found


def children(pid: int) -> list[int]:
    """Direct children by the kernel's own list: about 20 µs, where a scan of /proc takes 10 ms and more."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(pid).children()]
        return []
    found: list[int] = []
    for task in tasks:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as f:
            found += [int(word) for word in f.read().split()]
    return found


def signal_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each that is still the process it was (psutil checks start times)."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)


def kill_below(pid: int) -> None:
    """SIGKILL all descendants, those too that are being forked meanwhile, and reap those that are ours."""
    while left := descendants(pid):
        signal_all(left, signal.SIGKILL)
        for process in left:
            with contextlib.suppress(ChildProcessError, OSError):
                os.waitpid(process.pid, os.WNOHANG)
        time.sleep(0.001)
