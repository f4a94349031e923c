"""Deltas a second of one session against the double, beside the bare SDK with the same model."""

from __future__ import annotations

import time

import anthropic

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_DELTAS = 10_000
_PROMPT = f"@deltas {_DELTAS}"


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        session = await it.new_session()
        await it.prompt(session, "@text warm")
        chunks = await it.prompt(session, _PROMPT)
        ours = chunks[-1][0] - chunks[0][0]
        assert sum(chunk[2].count("tok") for chunk in chunks) == _DELTAS
        bare = await _bare(model["ANTHROPIC_BASE_URL"])
    return {"agent": _DELTAS / ours, "bare SDK": _DELTAS / bare}


async def _bare(base_url: str) -> float:
    """Seconds from the first delta to the last with nothing but the SDK."""
    first = last = 0.0
    async with anthropic.AsyncAnthropic(api_key="sk-double", base_url=base_url) as client:
        stream = await client.messages.create(
            model="claude-sonnet-4-5",
            max_tokens=64_000,
            messages=[{"role": "user", "content": _PROMPT}],
            stream=True,
        )
        async for event in stream:
            if event.type == "content_block_delta":
                last = time.perf_counter()
                first = first or last
    return last - first


BENCHMARK = Benchmark(
    "deltas of one session, against the double", "/s", _sample, runs=5, target=8_000, more_is_better=True
)
