"""What a stream is delayed (p99) while another session of the same agent floods the client."""

from __future__ import annotations

import statistics
from itertools import pairwise

import anyio

from ops.benchmarks.agent import Agent, agent, first_of
from ops.benchmarks.measure import Benchmark, Sample
from worker.models.offline import PAUSE

_PIECES = 60
_FLOOD = "\n".join(["count to 100000"] * 50)


async def _p99(it: Agent, session_id: str) -> float:
    chunks = await it.prompt(session_id, f"count to {_PIECES} slowly")
    gaps = [(b[0] - a[0] - PAUSE) * 1000 for a, b in pairwise(chunks)]
    return statistics.quantiles(gaps, n=100)[98]


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        calm, flooding = await it.new_session(), await it.new_session()
        for session in (calm, flooding):
            await it.prompt(session, "say warm")
        quiet = await _p99(it, calm)
        async with anyio.create_task_group() as flood:
            seen = len(it.chunks[flooding])
            flood.start_soon(it.prompt, flooding, _FLOOD)
            await first_of(it, flooding, seen, "1")
            beside = await _p99(it, calm)
            assert len(it.chunks[flooding]) > seen + _PIECES
            await it.client.notify("session/cancel", {"sessionId": flooding})
    return {"beside a flood": beside, "quiet": quiet}


BENCHMARK = Benchmark(
    "delay of a stream (150 ms a piece, p99) beside a session that floods", "ms", _sample, runs=3, target=30
)
