"""The last word on memory: a worker that, with its tools, stays above the limit is replaced.

The worker's own watch comes first and ends the tool that takes most; this one is for what that cannot
see or stop, the worker's own memory above all.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

import anyio
import psutil
from anyio import to_thread

from shared.processes import descendants
from supervisor import effects as fx

if TYPE_CHECKING:
    from supervisor.registry import Registry

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 2.0
PATIENCE: Final = 2
"""Looks in a row that find it too large: the worker's own watch has ended a tool by then."""


async def watch_memory(registry: Registry) -> None:
    """Runs as long as the front. Looks at workers with a turn or background tasks; idle ones do not grow."""
    limit = registry.services.settings.memory_limit
    above: dict[str, int] = {}
    while True:
        await anyio.sleep(LOOK_EVERY)
        busy = {
            session_id: live.epoch.pid
            for session_id, live in registry.live.items()
            if live.epoch is not None
            and live.epoch.pid is not None
            and (live.machine.turn is not None or live.machine.background)
        }
        if not busy:
            above.clear()
            continue
        sizes = await to_thread.run_sync(_sizes, busy)
        above = {sid: above.get(sid, 0) + 1 for sid, size in sizes.items() if size > limit}
        for session_id, looks in list(above.items()):
            live = registry.live.get(session_id)
            if looks < PATIENCE or live is None or live.epoch is None or live.epoch.pid != busy[session_id]:
                continue
            del above[session_id]
            size = f"{sizes[session_id] / 2**20:.0f} MiB"
            log.error("worker is killed: %s", size, extra={"fields": {"session": session_id}})
            live.do([fx.Kill(f"took {size} of memory, the limit is {limit / 2**20:.0f} MiB")])


def _sizes(pids: dict[str, int]) -> dict[str, int]:
    return {session_id: resident(pid) for session_id, pid in pids.items()}


def resident(pid: int) -> int:
    """Resident octets of a process and all below it; pages that they share count more than once."""
    total = 0
    with contextlib.suppress(psutil.Error):
        for process in (psutil.Process(pid), *descendants(pid)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
    return total
