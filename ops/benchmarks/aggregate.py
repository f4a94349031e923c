"""Deltas a second of several sessions at once, no model in the way, and how many cores they keep busy."""

from __future__ import annotations

import time

import anyio

from ops.benchmarks.agent import Agent, agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tree import cpu_seconds

_SESSIONS, _DELTAS = 4, 20_000


async def _count(it: Agent, session_id: str, deltas: int) -> None:
    chunks = await it.prompt(session_id, f"count to {deltas}")
    assert [int(number) for chunk in chunks for number in chunk[2].split()] == list(range(1, deltas + 1))


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        sessions = [await it.new_session() for _ in range(_SESSIONS)]
        for session in sessions:
            await it.prompt(session, "say warm")
        front = (await it.state())["pid"]
        took: dict[str, float] = {}
        for name, chosen in (("4 sessions", sessions), ("1 session", sessions[:1])):
            used, began = cpu_seconds(front), time.perf_counter()
            async with anyio.create_task_group() as turns:
                for session in chosen:
                    turns.start_soon(_count, it, session, _DELTAS)
            elapsed = time.perf_counter() - began
            took[name] = len(chosen) * _DELTAS / elapsed
            took[f"{name}: % of a core"] = (cpu_seconds(front) - used) / elapsed * 100
    return took


BENCHMARK = Benchmark(
    "deltas of several sessions at once", "/s", _sample, runs=5, target=20_000, more_is_better=True
)
