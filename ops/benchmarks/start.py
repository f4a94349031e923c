"""From exec to the answer of `initialize`, beside a bare Python that is started the same way."""

from __future__ import annotations

import time

from ops.benchmarks.agent import agent, bare_python, ms_since
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    began = time.perf_counter()
    async with agent() as it:
        await it.initialize()
        ours = ms_since(began)
    return {"start → initialize": ours, "bare python": await bare_python()}


BENCHMARK = Benchmark("start → initialize", "ms", _sample, runs=15, target=200)
