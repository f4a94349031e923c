"""From exec to the answer of `initialize`, beside a bare Python that is started the same way."""

from __future__ import annotations

import sys
import time

import anyio

from ops.benchmarks.agent import agent, ms_since
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    began = time.perf_counter()
    async with agent() as it:
        await it.initialize()
        ours = ms_since(began)
    began = time.perf_counter()
    await anyio.run_process([sys.executable, "-c", ""])
    return {"start → initialize": ours, "bare python": ms_since(began)}


BENCHMARK = Benchmark("start → initialize", "ms", _sample, runs=15, target=200)
