"""Blocking work beside the event loop, also when the system has no thread left to give."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    import anyio

T = TypeVar("T")
Args = TypeVarTuple("Args")


async def off_loop(
    work: Callable[[*Args], T], *args: *Args, limiter: anyio.CapacityLimiter | None = None
) -> T:
    """Run `work` in a thread.

    When a tool's fork bomb has used up the system's threads it runs on the loop instead: ending the
    bomb matters more than a stall of the loop.
    """
    started = False

    def begin(*args: *Args) -> T:
        nonlocal started
        started = True
        return work(*args)

    try:
        return await to_thread.run_sync(begin, *args, limiter=limiter)
    except RuntimeError:
        if started:
            raise
        return work(*args)
