"""Holding what calls run to a limit of memory, by asking the one that takes most to stop."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psutil

from worker.leftovers import attribute
from worker.off_loop import off_loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    import anyio

    from worker.child import Child


async def hold_to_limit(children: Mapping[str, Child], limit: int, threads: anyio.CapacityLimiter) -> int:
    """Bytes that all calls take together; above `limit` the one that takes most is stopped at once."""
    children = dict(children)
    claims = [child.claim for child in children.values()]
    trees = await off_loop(attribute, claims, limiter=threads)
    sizes = await off_loop(_sizes, trees.owned, "rss", limiter=threads)
    if sum(sizes.values()) > limit:
        # Pages that forked processes share count in each one's RSS; PSS is right but costs milliseconds.
        sizes = await off_loop(_sizes, trees.owned, "pss", limiter=threads)
    total = sum(sizes.values())
    if total > limit:
        token = max(sizes, key=sizes.__getitem__)
        children[token].memory = sizes[token]
        children[token].stop(0)
    return total


def _sizes(trees: dict[str, list[psutil.Process]], measure: str) -> dict[str, int]:
    """Bytes by token; `measure` is `rss` or, where the system has it, `pss`."""
    sizes = dict.fromkeys(trees, 0)
    for token, tree in trees.items():
        for process in tree:
            with contextlib.suppress(psutil.Error):
                info = process.memory_info() if measure == "rss" else process.memory_full_info()
                sizes[token] += getattr(info, measure, info.rss)
    return sizes
