"""A turn of 2,000 deltas against the double, from the prompt to its answer."""

from __future__ import annotations

import time

from ops.benchmarks.agent import agent, ms_since
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        session = await it.new_session()
        await it.prompt(session, "@text warm")
        took: dict[str, float] = {}
        for name, word in (("one write a delta", "deltas"), ("one write for all", "burst")):
            began = time.perf_counter()
            chunks = await it.prompt(session, f"@{word} 2000")
            took[name] = ms_since(began)
            assert sum(chunk[2].count("tok") for chunk in chunks) == 2000
    return took


BENCHMARK = Benchmark("prompt → answer, 2,000 deltas", "ms", _sample, runs=7, target=150)
