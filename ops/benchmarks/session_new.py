"""`session/new` on a running agent: the first, and those after it."""

from __future__ import annotations

import statistics
import time

from ops.benchmarks.agent import agent, ms_since
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        taken: list[float] = []
        for _ in range(11):
            began = time.perf_counter()
            await it.new_session()
            taken.append(ms_since(began))
    return {"later (median of 10)": statistics.median(taken[1:]), "first": taken[0]}


BENCHMARK = Benchmark("session/new on a running agent", "ms", _sample, runs=7, target=5)
