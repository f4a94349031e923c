"""Faults on purpose: makes a named point in the code kill, fail or stall, for tests and chaos runs.

Set `IAC_CODE_FAULTS` before the process starts, to a comma-separated list of `ACTION@POINT#N:ARMED`.
ACTION is `kill` or `stop` (SIGKILL or SIGSTOP of this process), `enospc`, `eio`, `erofs` (an OSError of that
number), `stall=SECONDS`, or `gil=SECONDS` (a stall in C code that keeps the GIL, so no thread runs). It
happens the Nth time that this process comes by POINT (the first without `#N`).
With `:ARMED`, it happens only while that file is there (without `#N` at any time that this is so), and
renames it to `ARMED.<pid>`: once over all processes, a test can arm one point after the other in a running
agent, and see whom it hit.
Unset, a point is a call of an empty function.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import re
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_FAULT: Final = re.compile(
    r"(?P<action>kill|stop|enospc|eio|erofs|(?:stall|gil)=(?P<seconds>\d+(?:\.\d+)?))"
    r"@(?P<point>[\w.-]+)(?:#(?P<hit>[1-9]\d*))?(?::(?P<armed>.+))?"
)
_NUMBERS: Final = {"enospc": errno.ENOSPC, "eio": errno.EIO, "erofs": errno.EROFS}


@dataclass
class _Fault:
    action: str
    seconds: float
    hit: int | None
    armed: str | None
    hits: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def come_by(self) -> None:
        # `next` is one step for the interpreter, so threads that come by together count apart.
        if (self.hit is not None and next(self.hits) != self.hit) or not self._is_armed():
            return
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.action.startswith("gil="):
            _hold_gil(self.seconds)
        elif self.action in _NUMBERS:
            number = _NUMBERS[self.action]
            raise OSError(number, os.strerror(number))
        else:
            time.sleep(self.seconds)

    def _is_armed(self) -> bool:
        if self.armed is None:
            return True
        try:
            os.rename(self.armed, f"{self.armed}.{os.getpid()}")
        except FileNotFoundError:
            return False
        return True


def _hold_gil(seconds: float) -> None:
    # Not sleep(3): the signal that asks for a stack dump would end it.
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_init(mutex, None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_timedlock(mutex, (ctypes.c_long * 2)(int(time.time() + seconds), 0))


def injector(faults: str) -> Callable[[str], None]:
    """The function to call at each point, for a list of faults. Raises ValueError for one that is none."""
    by_point: dict[str, list[_Fault]] = {}
    for text in faults.split(","):
        match = _FAULT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} in IAC_CODE_FAULTS is no fault: write ACTION@POINT#N:ARMED.")
        hit = int(match["hit"]) if match["hit"] else None if match["armed"] else 1
        fault = _Fault(match["action"], float(match["seconds"] or 0), hit, match["armed"])
        by_point.setdefault(match["point"], []).append(fault)

    def come_by(name: str) -> None:
        for fault in by_point.get(name, ()):
            fault.come_by()

    return come_by


def _nothing(name: str) -> None:
    """What a point is when no faults are wanted."""


WANTED: Final = bool(os.environ.get("IAC_CODE_FAULTS"))

fault_point: Final[Callable[[str], None]] = injector(os.environ["IAC_CODE_FAULTS"]) if WANTED else _nothing
"""Call it with a point's name where a fault may be wanted. Raises OSError when one says so."""
