"""Deltas a second through the pipe to a shared agent, as a share of a private front's: A B A B in one run."""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.shared_agent import daemon

if TYPE_CHECKING:
    from ops.benchmarks.agent import Agent

_DELTAS = 10_000
_PAIRS = 6


async def _rate(it: Agent, session: str) -> float:
    chunks = await it.prompt(session, f"count to {_DELTAS}")
    assert "".join(chunk[2] for chunk in chunks).split()[-1] == str(_DELTAS)
    return _DELTAS / (chunks[-1][0] - chunks[0][0])


async def _sample() -> Sample:
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(daemon())
        attached = await stack.enter_async_context(agent(shared.environment))
        private = await stack.enter_async_context(agent())
        sides = {"attached": attached, "private": private}
        rates: dict[str, list[float]] = {name: [] for name in sides}
        sessions = {}
        for name, it in sides.items():
            await it.initialize()
            sessions[name] = await it.new_session()
            await it.prompt(sessions[name], "say warm")
        for pair in range(_PAIRS):
            for name, it in sides.items() if pair % 2 else reversed(sides.items()):
                rates[name].append(await _rate(it, sessions[name]))
    one, other = statistics.median(rates["attached"]), statistics.median(rates["private"])
    return {"share of a private front's": 100 * one / other, "attached, /s": one, "private, /s": other}


BENCHMARK = Benchmark(
    "10,000 deltas, attached to a shared agent",
    "%",
    _sample,
    runs=5,
    warm_up=0,
    target=90,
    more_is_better=True,
)
