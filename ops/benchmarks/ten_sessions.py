"""Memory of the whole tree (PSS) with ten sessions, each after a prompt."""

from __future__ import annotations

import psutil

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double
from shared.processes import descendants


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        for _ in range(10):
            await it.prompt(await it.new_session(), "@text hello")
        state = await it.state()
        front, zygote = state["pid"], state["zygote"]["pid"]
        sizes = {p.pid: _pss(p) for p in (psutil.Process(front), *descendants(front))}
    total = sum(sizes.values())
    return {
        "all": total,
        "front": sizes[front],
        "zygote": sizes[zygote],
        "a worker": (total - sizes[front] - sizes[zygote]) / 10,
    }


def _pss(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss) / 2**20


BENCHMARK = Benchmark("PSS of ten sessions", "MB", _sample, runs=3, target=180)
