"""What the user is told of a request that is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker import events as ev

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from worker.models.base import Retrying


class RetryNotice:
    """Tells it once, for one request or for several that stand for one."""

    def __init__(self, emit: Callable[[ev.Event], Awaitable[None]]) -> None:
        self._emit = emit
        self._told = False

    async def tell(self, retry: Retrying) -> None:
        """It failed and will be sent again."""
        if not self._told:
            self._told = True
            await self._emit(ev.Error(f"\n[{retry.reason} Trying again in {retry.delay:.0f} s.]\n"))
