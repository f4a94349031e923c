"""CPU of front, zygote and 50 idle sessions that all have their workers."""

from __future__ import annotations

import time

import anyio

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tree import cpu_seconds
from ops.double import double

_SESSIONS, _SETTLE, _SECONDS = 50, 2.0, 20.0


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        for _ in range(_SESSIONS):
            await it.prompt(await it.new_session(), "@text hello")
        front = (await it.state())["pid"]
        await anyio.sleep(_SETTLE)
        used, began = cpu_seconds(front), time.perf_counter()
        await anyio.sleep(_SECONDS)
        return {"all together": (cpu_seconds(front) - used) / (time.perf_counter() - began) * 100}


BENCHMARK = Benchmark("idle CPU, 50 sessions", "% of a core", _sample, runs=2, warm_up=0, target=1)
