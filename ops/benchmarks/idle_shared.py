"""CPU of an idle shared agent, its zygote and twenty workers that nobody has prompted for a while."""

from __future__ import annotations

import anyio
import psutil

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.shared_agent import daemon
from shared.processes import descendants

_SESSIONS = 20
_SECONDS = 20.0


def _cpu(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)


async def _sample() -> Sample:
    async with daemon() as shared, agent(shared.environment) as it:
        await it.initialize()
        for _ in range(_SESSIONS):
            await it.prompt(await it.new_session(), "say hello")
        await anyio.sleep(2)
        front, rest = [psutil.Process(shared.pid)], descendants(shared.pid)
        assert len(rest) == _SESSIONS + 1
        before = _cpu(front), _cpu(rest)
        await anyio.sleep(_SECONDS)
        after = _cpu(front), _cpu(rest)
    of_front, of_rest = (100 * (b - a) / _SECONDS for a, b in zip(before, after, strict=True))
    return {"daemon": of_front, "zygote and 20 workers": of_rest}


BENCHMARK = Benchmark("idle shared agent, 20 sessions", "% CPU", _sample, runs=2, warm_up=0, target=0.5)
