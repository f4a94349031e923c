"""When a failed model request is sent again, and after how long. Pure: time and chance are passed in.

This is the only retry layer: the SDK's own is off, so the two never multiply.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """All times are in seconds."""

    retries: int = 5
    first_delay: float = 0.5
    longest_delay: float = 30.0
    longest_total: float = 600.0
    """From the first failure of a request to its last retry."""

    def delay(
        self, retries_done: int, waited: float, retry_after: float | None, chance: float
    ) -> float | None:
        """Seconds until the next attempt, or None to give up.

        `waited` is the time since the request's first failure; `chance` is uniform in [0, 1). The delay
        doubles, and half of it is jitter; the server's own `retry_after` is never undercut. Some say 0, or a
        date that has passed by our clock, in each of their answers.
        """
        if retries_done >= self.retries:
            return None
        delay = min(self.first_delay * 2**retries_done, self.longest_delay) * (0.5 + 0.5 * chance)
        if retry_after is not None:
            delay = max(delay, retry_after * (1 + 0.1 * chance))
        return delay if waited + delay <= self.longest_total else None


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.

    None where there is no such header or it makes no sense. `now` is aware.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if value is None or seconds is not None:
        return seconds
    try:
        return max((parsedate_to_datetime(value) - now).total_seconds(), 0.0)
    except (TypeError, ValueError):  # TypeError: a date without a zone
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
