"""Carries out a plan on live processes, and notes whom it hit."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
import psutil
from anyio import to_thread

from ops.chaos_run.plan import file_name
from shared.processes import children

if TYPE_CHECKING:
    from pathlib import Path

    from ops.chaos_run.plan import Kind, Strike

_LOOK: Final = 0.01
"""Seconds between looks at whether an armed fault has struck."""
_TITLES: Final = ("iac-code: zygote", "iac-code: worker ")


@dataclass(frozen=True, slots=True)
class Hit:
    """A process that was struck; `at` by time.monotonic()."""

    at: float
    kind: Kind
    pid: int


class Striker:
    """`hits` is what it has done so far; `armed` the folder of the plan's fault files."""

    def __init__(self, armed: Path) -> None:
        self.hits: list[Hit] = []
        self._armed = armed

    async def strike(self, strike: Strike, front: int, session_id: str) -> None:
        """Do it, unless who was meant has no process right now."""
        if strike.fault:
            (self._armed / file_name(strike.fault)).touch()
            return
        pid = front
        if strike.kind != "front":
            named = await to_thread.run_sync(titled, front)
            pid = named.get(
                "iac-code: zygote" if strike.kind == "zygote" else f"iac-code: worker {session_id}", 0
            )
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if strike.kind == "stop" else signal.SIGKILL)
                self.hits.append(Hit(time.monotonic(), strike.kind, pid))

    async def watch_armed(self) -> None:
        """Note whom armed faults hit: the product renames a fault's file to `….<pid>`. Never returns."""
        while True:
            for path in list(self._armed.glob("*.[0-9]*")):
                kind: Kind = "die" if path.name.startswith("kill") else "hang"
                self.hits.append(Hit(time.monotonic(), kind, int(path.suffix[1:])))
                path.unlink()
            await anyio.sleep(_LOOK)

    def disarm(self) -> None:
        """No armed fault strikes any more."""
        for path in self._armed.iterdir():
            if not path.suffix[1:].isdigit():
                path.unlink(missing_ok=True)


def titled(front: int) -> dict[str, int]:
    """Pids by process title, of the zygote and the workers below a front."""
    found: dict[str, int] = {}
    pending = children(front)
    while pending:
        pid = pending.pop()
        with contextlib.suppress(psutil.Error):
            title = " ".join(psutil.Process(pid).cmdline()).strip()
            if title.startswith(_TITLES):
                found[title] = pid
                if title == _TITLES[0]:
                    pending += children(pid)
    return found
