"""From SIGKILL of an idle worker to READY of the one that replaces it."""

from __future__ import annotations

import os
import signal
import statistics
import time
from datetime import datetime

from ops.benchmarks.agent import agent, bare_python
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    taken: list[float] = []
    async with agent() as it:
        await it.initialize()
        session = await it.new_session()
        for number in range(1, 12):
            # A turn in between: deaths without progress are, rightly, answered more and more slowly.
            await it.prompt(session, "say hello")
            pid = await it.worker(session)
            killed = time.time()
            os.kill(pid, signal.SIGKILL)
            ready = datetime.fromisoformat((await it.booted(number + 1))["time"]).timestamp()
            taken.append((ready - killed) * 1000)
    return {"kill → READY (median of 10)": statistics.median(taken[1:]), "bare python": await bare_python()}


BENCHMARK = Benchmark("kill → replacement READY", "ms", _sample, runs=5, target=40)
