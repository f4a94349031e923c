"""200 sessions stream at once, each whole and in order: seconds from the prompts to the last answer."""

from __future__ import annotations

import time

import anyio

from ops.benchmarks.agent import Agent, agent
from ops.benchmarks.measure import Benchmark, Sample

_SESSIONS, _DELTAS = 200, 500


async def _count(it: Agent, session_id: str) -> None:
    chunks = await it.prompt(session_id, f"count to {_DELTAS}")
    assert [int(number) for chunk in chunks for number in chunk[2].split()] == list(range(1, _DELTAS + 1))


async def _sample() -> Sample:
    took: dict[str, float] = {}
    async with agent() as it:
        await it.initialize()
        sessions = [await it.new_session() for _ in range(_SESSIONS)]
        # The first time each has its worker forked, 64 of which then stay; the second time the others have.
        for name in ("200 sessions, no worker yet", "200 sessions, again"):
            began = time.perf_counter()
            async with anyio.create_task_group() as turns:
                for session in sessions:
                    turns.start_soon(_count, it, session)
            took[name] = time.perf_counter() - began
    return took


BENCHMARK = Benchmark("200 sessions of 500 deltas, whole and in order", "s", _sample, runs=2, warm_up=0)
