"""What a test leaves behind: threads, processes and file descriptors that were not there before it.

Only looks. What `left` names is a leak by its rules alone, so that no test needs to be known here:
things that a library keeps for good once it was used are told apart by what they are, not by whose they are.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psutil

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE: Final = 5.0
"""Seconds that what is ending has to end; spent only by a test that leaks."""
_LOOK_AGAIN: Final = 0.01
_KEPT_FOR_GOOD: Final = ("/dev/urandom", "/dev/random", "/dev/null")


_PR_SET_CHILD_SUBREAPER: Final = 36


def adopt_nobody() -> None:
    """Undo what a test before this one may have made of this process: a subreaper, where orphans land."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@dataclass(frozen=True)
class Snapshot:
    """The threads, descriptors and processes at one time. Descriptors and processes only where /proc is."""

    threads: frozenset[threading.Thread]
    descriptors: dict[int, str]
    processes: frozenset[int]

    @classmethod
    def take(cls) -> Snapshot:
        """As it is now."""
        return cls(frozenset(threading.enumerate()), _descriptors("self"), frozenset(_pids()))


def left(
    before: Snapshot, folder: Path, patience: float = PATIENCE
) -> tuple[list[str], list[psutil.Process]]:
    """What is there and was not, in words, after giving it `patience` seconds to go; and the processes of it.

    A process counts that is a child of this one, or that works below `folder` (its working directory or an
    open file), so what was started and then set itself apart is found as well.
    """
    deadline = time.monotonic() + patience
    looks = 0
    while True:
        found, processes = _found(before, str(folder))
        if not found or time.monotonic() > deadline:
            return found, processes
        looks += 1
        if looks == 10:
            gc.collect()  # an object that closes its descriptor when it is collected is no leak
        time.sleep(_LOOK_AGAIN)


def _found(before: Snapshot, folder: str) -> tuple[list[str], list[psutil.Process]]:
    now = Snapshot.take()
    threads = [thread for thread in now.threads - before.threads if not _is_pooled(thread)]
    descriptors = {
        fd: target
        for fd, target in now.descriptors.items()
        # The first three are pytest's, which changes them when it is interrupted.
        if fd > 2 and before.descriptors.get(fd) != target and target not in _KEPT_FOR_GOOD
    }
    processes = [
        process for pid in now.processes - before.processes if (process := _ours(pid, folder)) is not None
    ]
    return [
        *(f"thread {thread.name!r}" for thread in threads),
        *(f"descriptor {fd} ({target})" for fd, target in descriptors.items()),
        *(f"process {process.pid} ({_command(process)})" for process in processes),
    ], processes


def _is_pooled(thread: threading.Thread) -> bool:
    """A thread of a pool that outlives the test by design: of a running event loop."""
    loop: Any = getattr(thread, "loop", None)
    return type(thread).__module__.startswith("anyio.") and loop is not None and not loop.is_closed()


def _descriptors(process: int | str) -> dict[int, str]:
    """What each open descriptor of a process leads to; empty if it is gone or not ours to see."""
    folder = f"/proc/{process}/fd"
    found: dict[int, str] = {}
    try:
        names = os.listdir(folder)
    except OSError:
        return found
    for name in names:
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}")
        except OSError:
            continue  # the one that listed the folder
    return found


def _pids() -> list[int]:
    return psutil.pids() if os.path.isdir("/proc/self") else []


def _ours(pid: int, folder: str) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None  # ended; whoever is its parent reaps it
        if process.ppid() == os.getpid():
            return process
        used = [process.cwd(), *_descriptors(pid).values()]
    except psutil.Error:
        return None
    return process if any(f"{path}/".startswith(f"{folder}/") for path in used) else None


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200] or process.name()
    except psutil.Error:
        return "gone by now"
