"""A front's runtime folder: its sockets, and which processes it has started.

A front that was killed together with its zygote may leave a worker that cannot end itself (stopped, or
with the GIL held). The next front finds it here by pid and start time, ends it, and removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import signal
from typing import TYPE_CHECKING

import psutil

from shared.processes import descendants, signal_all

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

_LOCK = "front.lock"
_PROCESSES = "processes"


class RuntimeFolder:
    """Made on construction, 0700, and held by a lock for as long as the front lives."""

    def __init__(self, root: Path) -> None:
        self.path = root / f"{os.getpid()}-{secrets.token_hex(3)}"
        self.path.mkdir(mode=0o700)
        (self.path / _PROCESSES).mkdir(mode=0o700)
        # Under its own name only once it is locked, so that no other front takes this one for dead.
        made = self.path / f"{_LOCK}.new"
        self._lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.path / _LOCK)

    def add(self, pid: int) -> None:
        """A process was started. It is named by its pid and start time."""
        try:
            name = f"{pid}.{psutil.Process(pid).create_time():.2f}"
            (self.path / _PROCESSES / name).touch(mode=0o600)
        except psutil.NoSuchProcess:
            pass
        except OSError as e:
            # A full disk, or a cleaner of /tmp: it is missed only if the front dies and it cannot end itself.
            log.warning(
                "a process is not noted in the runtime folder: %s", e, extra={"fields": {"worker": pid}}
            )

    def remove(self, pid: int) -> None:
        """A process has ended."""
        for entry in (self.path / _PROCESSES).glob(f"{pid}.*"):
            with contextlib.suppress(OSError):  # one that stays names a process that is no more
                entry.unlink()

    def close(self) -> None:
        """Remove the folder. The front is about to end and nothing that it started lives."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def clean_stale(root: Path, keep: Path) -> None:
    """End what dead fronts left running, and remove their folders. Blocking: call from a thread."""
    for folder in root.iterdir():
        if folder == keep or not folder.is_dir():
            continue
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # being made or removed by another front right now, or not a front's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            _end_processes(folder)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _end_processes(folder: Path) -> None:
    # glob: the list is gone already where a front was killed while it removed its folder.
    for entry in (folder / _PROCESSES).glob("*.*"):
        pid, _, started = entry.name.partition(".")
        try:
            process = psutil.Process(int(pid))
            same = abs(process.create_time() - float(started)) < 0.02
        except (psutil.Error, ValueError, OverflowError):
            continue
        if same:
            log.warning("a process of a dead front is ended", extra={"fields": {"ended": int(pid)}})
            signal_all([process, *descendants(process.pid)], signal.SIGKILL)
