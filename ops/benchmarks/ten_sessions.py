"""Memory of the whole tree (PSS) with ten sessions, each after a prompt."""

from __future__ import annotations

from functools import partial

import anyio

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tree import all_pss, pss
from ops.double import double


async def held_by(sessions: int) -> Sample:
    """MB with so many sessions."""
    async with double() as model, agent(model) as it:
        await it.initialize()
        opened = [await it.new_session() for _ in range(sessions)]
        with anyio.fail_after(60):
            while not (state := await it.state())["zygote"]["warm"]:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
        before = all_pss(state["pid"])
        for session_id in opened:
            await it.prompt(session_id, "@text hello")
        total, front, zygote = all_pss(state["pid"]), pss(state["pid"]), pss(state["zygote"]["pid"])
    return {
        "all": total,
        "before the prompts": before,
        "front": front,
        "zygote": zygote,
        "a worker": (total - front - zygote) / sessions,
    }


BENCHMARK = Benchmark("PSS of ten sessions", "MB", partial(held_by, 10), runs=3, target=180)
