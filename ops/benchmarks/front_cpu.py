"""CPU of the front at 1,000 deltas a second, of 50 sessions together."""

from __future__ import annotations

import time

import anyio
import psutil

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_SESSIONS, _EVERY, _SECONDS = 50, 0.05, 6.0
_STREAM = "\n".join(f"@text {n} \n@sleep {_EVERY}" for n in range(300))


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        sessions = [await it.new_session() for _ in range(_SESSIONS)]
        for session in sessions:
            await it.prompt(session, "@text warm")
        front = psutil.Process((await it.state())["pid"])
        async with anyio.create_task_group() as turns:
            for session in sessions:
                turns.start_soon(it.prompt, session, _STREAM)
            with anyio.fail_after(60):
                while min(map(len, it.chunks.values())) < 10:  # noqa: ASYNC110 - the client's callback is not async
                    await anyio.sleep(0.05)
            seen, used, began = (
                sum(map(len, it.chunks.values())),
                sum(front.cpu_times()[:2]),
                time.perf_counter(),
            )
            await anyio.sleep(_SECONDS)
            used, elapsed = sum(front.cpu_times()[:2]) - used, time.perf_counter() - began
            deltas = (sum(map(len, it.chunks.values())) - seen) / elapsed
    # Scaled: where the machine is busy with other work, fewer come than are asked for.
    percent = used / elapsed * 100
    return {"at 1,000/s": percent / deltas * 1_000, "as measured": percent, "deltas a second": deltas}


BENCHMARK = Benchmark(
    "CPU of the front at 1,000 deltas/s over 50 sessions",
    "% of a core",
    _sample,
    runs=3,
    warm_up=0,
    target=20,
)
