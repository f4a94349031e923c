"""What the pipe and the socket of a shared agent add to the first delta, above a private front."""

from __future__ import annotations

import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.shared_agent import daemon
from ops.double import double

if TYPE_CHECKING:
    from ops.benchmarks.agent import Agent

_PAIRS = 40
_WARM_UP = 3


async def _first(it: Agent, session: str) -> float:
    began = time.perf_counter()
    chunks = await it.prompt(session, "@text hello")
    return (chunks[0][0] - began) * 1000


async def _sample() -> Sample:
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(double())
        shared = await stack.enter_async_context(daemon(model))
        attached = await stack.enter_async_context(agent(shared.environment))
        private = await stack.enter_async_context(agent(model))
        took: dict[str, list[float]] = {"attached": [], "private": []}
        sides = {"attached": attached, "private": private}
        sessions = {}
        for name, it in sides.items():
            await it.initialize()
            sessions[name] = await it.new_session()
        for pair in range(_PAIRS + _WARM_UP):
            for name, it in sides.items() if pair % 2 else reversed(sides.items()):
                figure = await _first(it, sessions[name])
                if pair >= _WARM_UP:
                    took[name].append(figure)
    one, other = statistics.median(took["attached"]), statistics.median(took["private"])
    return {"above a private front": one - other, "attached": one, "private": other}


BENCHMARK = Benchmark(
    "prompt → first delta, attached to a shared agent", "ms", _sample, runs=5, warm_up=0, target=1
)
