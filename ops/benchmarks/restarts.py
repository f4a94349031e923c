"""What 200 restarts of a worker leave behind in the front and the zygote: descriptors, threads, memory."""

from __future__ import annotations

import os
import signal

import psutil

from ops.benchmarks.agent import Agent, agent
from ops.benchmarks.measure import Benchmark, Sample

_WARM, _RESTARTS = 30, 200


async def _restart(it: Agent, session_id: str, times: int) -> None:
    for _ in range(times):
        await it.prompt(session_id, "say hello")
        boots = len(it.boots())
        os.kill(await it.worker(session_id), signal.SIGKILL)
        await it.booted(boots + 1)


def _held(name: str, pid: int) -> Sample:
    process = psutil.Process(pid)
    return {
        f"{name}: descriptors": process.num_fds(),
        f"{name}: threads": process.num_threads(),
        f"{name}: RSS, MB": process.memory_info().rss / 2**20,
    }


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        session = await it.new_session()
        await _restart(it, session, _WARM)
        state = await it.state()
        pids = {"front": state["pid"], "zygote": state["zygote"]["pid"]}
        before = {what: n for name, pid in pids.items() for what, n in _held(name, pid).items()}
        await _restart(it, session, _RESTARTS)
        after = {what: n for name, pid in pids.items() for what, n in _held(name, pid).items()}
    more = {what: after[what] - before[what] for what in after}
    return {"all together": sum(max(n, 0) for n in more.values()), **more}


BENCHMARK = Benchmark("growth over 200 restarts", "more", _sample, runs=1, warm_up=0, target=2)
