"""When a dead worker is replaced: a budget that counts progress, and a breaker for boots.

Pure: fed with deaths and the time, it says the delay to the next start, or that there is none.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Final

DELAYS: Final = (0.0, 0.25, 1.0)
"""Seconds before the first, second and third restart without progress between them."""
PROVEN: Final = 60.0
"""A worker that was ready for this many seconds has proven that the session can live."""
BOOT_FAILURES: Final = 10
BOOT_WINDOW: Final = 10.0


@dataclass(slots=True)
class RestartBudget:
    """One session's deaths since it last made progress."""

    deaths: int = 0
    total: int = 0

    def on_death(self, *, progressed: bool, lived: float, jitter: float | None = None) -> float | None:
        """Seconds until the next start, or None: the session has failed.

        `progressed`: a record became durable in that epoch. `jitter` in 0..1 spreads restarts.
        """
        self.total += 1
        if progressed or lived >= PROVEN:
            self.deaths = 0
        self.deaths += 1
        if self.deaths > len(DELAYS):
            return None
        spread = random.random() if jitter is None else jitter
        return DELAYS[self.deaths - 1] * (1 + 0.2 * spread)

    def clear(self) -> None:
        """The user asked for the session again, by load or resume."""
        self.deaths = 0


@dataclass(slots=True)
class BootBreaker:
    """Server-wide: when workers cannot even start, starting more of them helps nobody."""

    _failures: deque[float] = field(default_factory=deque)

    def on_boot_failure(self, now: float) -> None:
        """A worker died before it was ready."""
        self._failures.append(now)

    def on_boot(self) -> None:
        """A worker became ready."""
        self._failures.clear()

    def is_open(self, now: float) -> bool:
        """True: start nothing now."""
        while self._failures and now - self._failures[0] > BOOT_WINDOW:
            self._failures.popleft()
        return len(self._failures) >= BOOT_FAILURES
