"""The front's tasks, none of which can end it: what goes wrong in one is logged and costs that task alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

log = logging.getLogger(__name__)

PAUSE: Final = 0.5
"""Seconds until a lasting task that failed begins again."""


class FrontTasks:
    """Starts tasks in a group. A lack of descriptors, a full disk or a defect of ours ends no session."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group

    def start_soon(self, work: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Run once."""
        self._group.start_soon(self._guarded, work, *args)

    def keep(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run until it returns; begin again whenever it fails."""
        self._group.start_soon(self._kept, work)

    @staticmethod
    async def _guarded(work: Callable[..., Awaitable[Any]], *args: Any) -> bool:
        try:
            await work(*args)
        except Exception:
            log.exception("%s failed", getattr(work, "__qualname__", work))
            return False
        return True

    async def _kept(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            if await self._guarded(work):
                return
            await anyio.sleep(PAUSE)
