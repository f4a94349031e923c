"""From SIGSTOP of a worker in mid-turn to the turn's next delta, above the threshold for a hang."""

from __future__ import annotations

import os
import signal
import time

import anyio

from ops.benchmarks.agent import agent, first_of
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_THRESHOLD = 2.0


async def _sample() -> Sample:
    settings = {"unresponsive_after": 1.0, "kill_after_in_turn": _THRESHOLD}
    async with double() as model, agent(model, settings) as it:
        await it.initialize()
        session = await it.new_session()
        async with anyio.create_task_group() as turn:
            turn.start_soon(it.prompt, session, "@text ahoy\n@sleep 1\n@text end")
            await first_of(it, session, 0, "ahoy")
            stopped = time.perf_counter()
            os.kill(await it.worker(session), signal.SIGSTOP)
            at, _, _ = await first_of(it, session, 1, "ahoy")
    return {"above the threshold of 2 s": (at - stopped - _THRESHOLD) * 1000}


BENCHMARK = Benchmark("hang → recovered, above the threshold", "ms", _sample, runs=5, target=300)
