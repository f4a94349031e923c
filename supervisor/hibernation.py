"""Idle sessions give their workers back: a prompt starts another from disk in milliseconds.

Whom to put to sleep is decided purely, from what each session is doing and since when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supervisor.live import LiveSession
    from supervisor.registry import Registry

LOOK_EVERY: Final = 5.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A session that has a worker. `idle_since` None: a turn, a background task or a request needs it."""

    session_id: str
    idle_since: float | None


def sleepers(workers: Sequence[Worker], now: float, after: float, most: int) -> list[str]:
    """Whose workers are to go: of sessions idle for `after` seconds, or least recently used beyond `most`."""
    idle = sorted(
        (worker.idle_since, worker.session_id) for worker in workers if worker.idle_since is not None
    )
    surplus = max(0, len(workers) - most)
    return [sid for n, (since, sid) in enumerate(idle) if n < surplus or now - since >= after]


async def hibernate_idle(registry: Registry) -> None:
    """Runs as long as the front."""
    settings = registry.services.settings
    while True:
        await anyio.sleep(min(LOOK_EVERY, settings.hibernate_after))
        now = anyio.current_time()
        workers = [
            Worker(session_id, live.idle_since)
            for session_id, live in registry.live.items()
            if live.machine.worker == "ready"
        ]
        for session_id in sleepers(workers, now, settings.hibernate_after, settings.max_live_workers):
            live: LiveSession = registry.live[session_id]
            live.do(live.machine.hibernate())
