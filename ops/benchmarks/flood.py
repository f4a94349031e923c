"""10,000 deltas from one worker to the client's pipe, with no model in the way: the offline one counts."""

from __future__ import annotations

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample

_DELTAS = 10_000


async def _sample() -> Sample:
    async with agent() as it:
        await it.initialize()
        session = await it.new_session()
        await it.prompt(session, "say warm")
        chunks = await it.prompt(session, f"count to {_DELTAS}")
        assert "".join(chunk[2] for chunk in chunks).split()[-1] == str(_DELTAS)
    return {"worker → pipe": _DELTAS / (chunks[-1][0] - chunks[0][0])}


BENCHMARK = Benchmark(
    "10,000 deltas, no model in the way", "/s", _sample, runs=7, target=40_000, more_is_better=True
)
