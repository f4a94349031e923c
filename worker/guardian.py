"""Ends workers that are the front's own children when the front is gone: `python -m worker.guardian FD`.

A zygote that dies leaves its workers to the front, and where none starts they are its own from the first.
If then the front is killed, nobody is above them, and one that is stopped or holds the GIL cannot end itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

import psutil
from setproctitle import setproctitle

from shared.processes import kill_below

_SAME: float = 0.02
"""Seconds by which two readings of a process's start may differ."""


def main() -> None:
    """FD is the lifeline: a line `PID START` for each worker to guard, and its end is the front's."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    setproctitle("iac-code: guardian")
    guarded: list[psutil.Process] = []
    with os.fdopen(int(sys.argv[1])) as lifeline:
        for line in lifeline:
            pid, started = line.split()
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(pid))
                if abs(process.create_time() - float(started)) < _SAME:
                    guarded.append(process)
    for process in guarded:
        with contextlib.suppress(psutil.NoSuchProcess):
            _end(process)


def _end(worker: psutil.Process) -> None:
    # Stopped first, and killed last: it starts nothing more, and what it started stays below it until then.
    worker.suspend()
    kill_below(worker.pid)
    worker.kill()


if __name__ == "__main__":
    main()
