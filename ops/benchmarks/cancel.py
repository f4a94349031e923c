"""From `session/cancel` to the answer `cancelled`, whatever the turn is doing."""

from __future__ import annotations

import statistics
import time

import anyio

from ops.benchmarks.agent import agent, bare_python, first_of
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_DOING = {
    "a tool that ignores SIGTERM": '@text ahoy\n@tool bash {"command": "trap \'\' TERM; sleep 30; true"}',
    "the model streams": "@text ahoy\n@sleep 30",
    "the model is silent": "@text ahoy\n@stall 30",
}


async def _sample() -> Sample:
    taken: dict[str, list[float]] = {name: [] for name in _DOING}
    async with double() as model, agent(model) as it:
        await it.initialize()
        session = await it.new_session()
        for name, text in _DOING.items():
            for _ in range(5):
                before = len(it.chunks[session])
                ended = 0.0

                async def turn(text: str = text) -> None:
                    nonlocal ended
                    await it.prompt(session, text)
                    ended = time.perf_counter()

                async with anyio.create_task_group() as group:
                    group.start_soon(turn)
                    await first_of(it, session, before, "ahoy")
                    await anyio.sleep(0.3)  # what follows the text has begun
                    began = time.perf_counter()
                    await it.client.notify("session/cancel", {"sessionId": session})
                taken[name].append((ended - began) * 1000)
    figures = {name: statistics.median(times[1:]) for name, times in taken.items()}
    return {**figures, "bare python": await bare_python()}


BENCHMARK = Benchmark("cancel → its turn's answer", "ms", _sample, runs=3, target=200)
