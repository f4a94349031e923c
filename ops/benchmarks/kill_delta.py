"""From SIGKILL of a worker in mid-turn to the interrupted turn's next delta from the model."""

from __future__ import annotations

import os
import signal
import statistics
import time

import anyio

from ops.benchmarks.agent import agent, bare_python, first_of
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double


async def _sample() -> Sample:
    taken: list[float] = []
    async with double() as model, agent(model) as it:
        await it.initialize()
        session = await it.new_session()
        for _ in range(11):
            async with anyio.create_task_group() as turn:
                before = len(it.chunks[session])
                turn.start_soon(it.prompt, session, "@text ahoy\n@sleep 0.4\n@text end")
                await first_of(it, session, before, "ahoy")
                pid = await it.worker(session)
                seen = len(it.chunks[session])
                killed = time.perf_counter()
                os.kill(pid, signal.SIGKILL)
                at, _, _ = await first_of(it, session, seen, "ahoy")
                taken.append((at - killed) * 1000)
    return {
        "kill → next delta (median of 10)": statistics.median(taken[1:]),
        "bare python": await bare_python(),
    }


BENCHMARK = Benchmark("kill → the interrupted turn's next delta", "ms", _sample, runs=5, target=80)
