"""From a prompt to the first text of a sleeping session with 1 MB of history, beside one that is awake."""

from __future__ import annotations

import statistics
import time

import anyio

from ops.benchmarks.agent import Agent, agent
from ops.benchmarks.measure import Benchmark, Sample

_TURNS, _WORDS = 10, "lorem ipsum dolor sit amet " * 1_900
_TIMES = 5


async def _asleep(it: Agent) -> None:
    with anyio.fail_after(30):
        while (await it.state())["sessions"][0]["state"] != "hibernating":  # noqa: ASYNC110 - another process's
            await anyio.sleep(0.1)


async def _first_text(it: Agent, session_id: str) -> float:
    began = time.perf_counter()
    chunks = await it.prompt(session_id, "say hello")
    return (chunks[0][0] - began) * 1000


async def _sample() -> Sample:
    asleep: list[float] = []
    awake: list[float] = []
    async with agent(settings={"hibernate_after": 0.5}) as it:
        await it.initialize()
        session = await it.new_session()
        for _ in range(_TURNS):
            await it.prompt(session, f"say {_WORDS}")
        (history,) = (it.home / "config" / "sessions").glob("*/history.jsonl")
        assert history.stat().st_size > 1_000_000
        for _ in range(_TIMES):
            await _asleep(it)
            asleep.append(await _first_text(it, session))
            awake.append(await _first_text(it, session))
    return {"asleep": statistics.median(asleep), "awake": statistics.median(awake)}


BENCHMARK = Benchmark(
    "prompt → first text of a sleeping session, 1 MB of history", "ms", _sample, runs=3, target=60
)
