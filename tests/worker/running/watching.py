"""Looking at the system from outside of what is tested."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBERS: Final = itertools.count(1)


def seconds() -> str:
    """An argument for sleep that no other test uses, to find the process by."""
    return f"7{os.getpid()}{next(_NUMBERS):03}"


def alive(mark: str) -> list[int]:
    """Processes anywhere whose command line holds `mark`, without this one."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.pid != os.getpid()
        and process.info["status"] != psutil.STATUS_ZOMBIE
        and any(mark in word for word in process.info["cmdline"] or ())
    ]


def open_descriptors() -> int:
    """How many this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells. Raises TimeoutError after 10 s."""
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)
