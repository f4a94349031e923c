"""A client stops reading for a minute while five sessions flood: the memory that costs. Nothing is lost."""

from __future__ import annotations

import time

import anyio

from ops.benchmarks.agent import Agent, agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tree import all_pss, pss

_SESSIONS, _NUMBERS, _TIMES, _SECONDS = 5, 100_000, 3, 60


async def _count(it: Agent, session_id: str) -> None:
    asked = "\n".join([f"count to {_NUMBERS}"] * _TIMES)
    text = "".join(chunk[2] for chunk in await it.prompt(session_id, asked))
    assert text.split() == [str(number) for number in range(1, _NUMBERS + 1)] * _TIMES, text[-200:]


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        sessions = [await it.new_session() for _ in range(_SESSIONS)]
        for session in sessions:
            await it.prompt(session, "count to 10000")
        front = (await it.state())["pid"]
        everything, alone = all_pss(front), pss(front)
        most_everything = most_alone = 0.0
        async with anyio.create_task_group() as turns:
            for session in sessions:
                turns.start_soon(_count, it, session)
            await anyio.sleep(0.3)
            for _ in range(_SECONDS):
                time.sleep(1)  # noqa: ASYNC251 - the whole client stands still, that is what is measured
                most_everything, most_alone = (
                    max(most_everything, all_pss(front)),
                    max(most_alone, pss(front)),
                )
    return {
        "all, more than before": most_everything - everything,
        "front, more than before": most_alone - alone,
    }


BENCHMARK = Benchmark(
    "memory for a client that does not read for 60 s, 5 sessions flooding",
    "MB",
    _sample,
    runs=1,
    warm_up=0,
    target=64,
)
