"""CPU of front, zygote and 50 idle sessions that all have their workers."""

from __future__ import annotations

import time

import anyio
import psutil

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
        pid = (await it.state())["pid"]
        front = psutil.Process(pid)
        await anyio.sleep(_SETTLE)
        before, front_before, began = cpu_seconds(pid), sum(front.cpu_times()[:2]), time.perf_counter()
        await anyio.sleep(_SECONDS)
        percent = 100 / (time.perf_counter() - began)
        in_front = (sum(front.cpu_times()[:2]) - front_before) * percent
        together = (cpu_seconds(pid) - before) * percent
    return {"all together": together, "front": in_front, "a worker": (together - in_front) / _SESSIONS}


BENCHMARK = Benchmark("idle CPU, 50 sessions", "% of a core", _sample, runs=2, warm_up=0, target=1)
