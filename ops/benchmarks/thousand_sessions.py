"""1,000 open sessions, 20 active at a time: all answer, and memory is bounded by the live workers."""

from __future__ import annotations

import anyio

from ops.benchmarks.agent import Agent, agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tree import all_pss, pss

_SESSIONS, _ACTIVE, _LIVE = 1_000, 20, 64


async def _say(it: Agent, session_id: str) -> None:
    chunks = await it.prompt(session_id, f"say {session_id}")
    assert "".join(chunk[2] for chunk in chunks).strip() == session_id


async def _sample() -> Sample:
    async with agent(settings={"max_live_workers": _LIVE}) as it:
        await it.initialize()
        sessions = [await it.new_session() for _ in range(_SESSIONS)]
        front = (await it.state())["pid"]
        most = few = 0.0
        for at in range(0, _SESSIONS, _ACTIVE):
            async with anyio.create_task_group() as turns:
                for session in sessions[at : at + _ACTIVE]:
                    turns.start_soon(_say, it, session)
            if at + _ACTIVE <= _LIVE:
                few = all_pss(front)
            elif at % 100 == 0:
                most = max(most, all_pss(front))
        return {"most": max(most, all_pss(front)), "with the first 60 prompted": few, "front": pss(front)}


BENCHMARK = Benchmark(
    "memory with 1,000 open sessions, all of them prompted", "MB", _sample, runs=1, warm_up=0
)
