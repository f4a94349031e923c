"""Which workers are silent, and for how long: a pure state machine over pings, acks and the time.

Only the worker's own loop answers, so a loop that is stuck, stopped or starved is silent whatever its
other threads do. The check is skipped where silence says nothing: the front itself was late or the
machine slept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shared.settings import Settings

PING_EVERY: Final = 1.0
IDLE_ROUNDS: Final = 2
"""Without a turn a worker is asked in every second round: its silence keeps nobody waiting, and fifty of them
that answer each second take 4.5 % of a core."""
LATE: Final = 1.0
"""A check that comes this much after its time shows that the front did not run: everyone gets it back."""


class Verdict(Enum):
    """What became of a worker at a check."""

    UNRESPONSIVE = "unresponsive"
    RESPONSIVE = "responsive"
    HUNG = "hung"


@dataclass(slots=True)
class _Watched:
    heard: float
    in_turn: bool = False
    unresponsive: bool = False


@dataclass
class Liveness:
    """All ready workers of a front, by a key of the caller's."""

    settings: Settings
    _workers: dict[str, _Watched] = field(default_factory=dict)
    _due: float | None = None
    _pinged: float = float("-inf")
    _rounds: int = 0

    def watch(self, key: str, now: float) -> None:
        """A worker became ready."""
        self._workers[key] = _Watched(heard=now)

    def restart(self, key: str, now: float) -> None:
        """It is silent for a reason that is known: count anew from now."""
        if key in self._workers:
            self._workers[key].heard, self._workers[key].unresponsive = now, False

    def forget(self, key: str) -> None:
        """It ended, or is being ended."""
        self._workers.pop(key, None)

    def in_turn(self, key: str, running: bool) -> None:
        """A turn began or ended in it."""
        if key in self._workers:
            self._workers[key].in_turn = running

    def is_unresponsive(self, key: str) -> bool:
        """It has been silent longer than `unresponsive_after`."""
        return key in self._workers and self._workers[key].unresponsive

    def heard(self, key: str, now: float) -> Verdict | None:
        """The worker's loop answered. RESPONSIVE if it had been silent for long."""
        watched = self._workers.get(key)
        if watched is None:
            return None
        watched.heard = now
        if watched.unresponsive:
            watched.unresponsive = False
            return Verdict.RESPONSIVE
        return None

    def check(self, now: float) -> list[tuple[str, Verdict]]:
        """Who became unresponsive or is hung by `now`. Call at `next_at`, or whenever."""
        if self._due is not None and now - self._due > LATE:
            self.forgive(now - self._due)
        verdicts: list[tuple[str, Verdict]] = []
        for key, watched in self._workers.items():
            # More may have been forgiven than it was silent: it is heard now at the latest.
            watched.heard = min(watched.heard, now)
            silent = now - watched.heard
            if silent >= self._limit(watched):
                verdicts.append((key, Verdict.HUNG))
            elif silent >= self.settings.unresponsive_after and not watched.unresponsive:
                watched.unresponsive = True
                verdicts.append((key, Verdict.UNRESPONSIVE))
        self._due = None
        return verdicts

    def forgive(self, seconds: float) -> None:
        """Silence of this long says nothing: the front was late, or the machine slept."""
        for watched in self._workers.values():
            watched.heard += seconds

    def pings_due(self, now: float) -> list[str]:
        """Those to ping now: all in a round of PING_EVERY, but the idle ones only in some."""
        if now - self._pinged < PING_EVERY:
            return []
        self._pinged = now
        self._rounds += 1
        # Only where an answer still comes well before silence counts.
        leaves_idle = (
            self._rounds % IDLE_ROUNDS and self.settings.unresponsive_after > IDLE_ROUNDS * PING_EVERY
        )
        return [key for key, watched in self._workers.items() if watched.in_turn or not leaves_idle]

    def next_at(self, now: float) -> float:
        """When to call `check` and `pings_due` again."""
        times = [self._pinged + PING_EVERY]
        for watched in self._workers.values():
            limit = self._limit(watched)
            if not watched.unresponsive:
                limit = min(limit, self.settings.unresponsive_after)
            # What is over was told by the last check, and is told again at the next ping: no busy loop.
            if watched.heard + limit > now:
                times.append(watched.heard + limit)
        self._due = max(now, min(times))
        return self._due

    def _limit(self, watched: _Watched) -> float:
        return self.settings.kill_after_in_turn if watched.in_turn else self.settings.kill_after_idle
