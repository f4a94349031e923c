"""What the front and all below it use together."""

from __future__ import annotations

import contextlib

import psutil

from shared.processes import descendants


def pss(pid: int) -> float:
    """MB (2**20) of one process, pages that it shares counted in parts."""
    return float(psutil.Process(pid).memory_full_info().pss) / 2**20


def all_pss(front: int) -> float:
    """MB of the front, the zygote and all workers."""
    total = 0.0
    for process in (psutil.Process(front), *descendants(front)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total / 2**20


def cpu_seconds(front: int) -> float:
    """Seconds on a core of all that are alive, since their start."""
    total = 0.0
    for process in (psutil.Process(front), *descendants(front)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total
