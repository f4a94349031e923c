"""`session/new` on a running agent: the first, and those after it."""

from __future__ import annotations

import statistics
import time

from ops.benchmarks.agent import INITIALIZE, agent, ms_since
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    async with agent() as (client, folder):
        await client.request("initialize", INITIALIZE)
        taken: list[float] = []
        for _ in range(11):
            began = time.perf_counter()
            await client.request("session/new", {"cwd": str(folder), "mcpServers": []})
            taken.append(ms_since(began))
    return {"later (median of 10)": statistics.median(taken[1:]), "first": taken[0]}


BENCHMARK = Benchmark("session/new on a running agent", "ms", _sample, runs=7, target=10)
