"""What an untouched session's stream is delayed (p99) while its neighbour is killed again and again."""

from __future__ import annotations

import os
import signal
import statistics
from itertools import pairwise

import anyio

from ops.benchmarks.agent import Agent, agent, first_of
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_PIECES = 200
_STREAM = "\n".join(f"@text {n}\n@sleep 0.02" for n in range(_PIECES))


async def _p99(it: Agent, session_id: str) -> float:
    chunks = await it.prompt(session_id, _STREAM)
    gaps = [(b[0] - a[0]) * 1000 for a, b in pairwise(chunks)]
    return statistics.quantiles(gaps, n=100)[98]


async def _kill_again_and_again(it: Agent, session_id: str) -> None:
    while True:
        async with anyio.create_task_group() as turn:
            before = len(it.chunks[session_id])
            turn.start_soon(it.prompt, session_id, "@text ahoy\n@sleep 0.1\n@text end")
            await first_of(it, session_id, before, "ahoy")
            os.kill(await it.worker(session_id), signal.SIGKILL)


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        untouched, killed = await it.new_session(), await it.new_session()
        await it.prompt(untouched, "@text warm")
        quiet = await _p99(it, untouched)
        async with anyio.create_task_group() as killing:
            killing.start_soon(_kill_again_and_again, it, killed)
            beside = await _p99(it, untouched)
            killing.cancel_scope.cancel()
    return {"p99 above the quiet run": beside - quiet, "p99 beside": beside, "p99 quiet": quiet}


BENCHMARK = Benchmark(
    "delay of a stream (20 ms a piece) beside a neighbour that is killed", "ms", _sample, runs=5, target=10
)
