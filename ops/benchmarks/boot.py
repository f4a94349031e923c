"""From the request to fork a worker to its READY, once the zygote is warm."""

from __future__ import annotations

import statistics

from ops.benchmarks.agent import agent, bare_python
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        for _ in range(11):
            await it.prompt(await it.new_session(), "say hello")
        boots = [boot["ms"] for boot in it.boots()]
    return {"fork → READY (median of 10)": statistics.median(boots[1:]), "bare python": await bare_python()}


BENCHMARK = Benchmark("fork → READY", "ms", _sample, runs=5, target=25)
