"""From a prompt to its first text with the offline model: in a session's first turn, and in its second."""

from __future__ import annotations

import time

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        session = await it.new_session()
        taken: list[float] = []
        for _ in range(2):
            began = time.perf_counter()
            chunks = await it.prompt(session, "say hello")
            taken.append((chunks[0][0] - began) * 1000)
    return {"later turn": taken[1], "first turn (cold agent)": taken[0]}


BENCHMARK = Benchmark("prompt → first delta, offline model", "ms", _sample, runs=7)
