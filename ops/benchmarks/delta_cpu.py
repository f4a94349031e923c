"""A worker's CPU time for a delta, from the model's stream to the link, above that of the bare SDK."""

from __future__ import annotations

import time

import anthropic
import psutil

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_DELTAS = 20_000
_PROMPT = f"@deltas {_DELTAS}"


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        session = await it.new_session()
        await it.prompt(session, "@text warm")
        worker = psutil.Process(await it.worker(session))
        before = worker.cpu_times()
        await it.prompt(session, _PROMPT)
        after = worker.cpu_times()
        ours = (after.user + after.system - before.user - before.system) / _DELTAS * 1e6
        bare = await _bare(model["ANTHROPIC_BASE_URL"])
    return {"above the SDK": ours - bare, "worker": ours, "bare SDK": bare}


async def _bare(base_url: str) -> float:
    """Microseconds of CPU time for a delta with nothing but the SDK, which runs in this process."""
    async with anthropic.AsyncAnthropic(api_key="sk-double", base_url=base_url) as client:
        for prompt in ("@text warm", _PROMPT):
            began = time.process_time()
            stream = await client.messages.create(
                model="claude-sonnet-4-5",
                max_tokens=64_000,
                messages=[{"role": "user", "content": prompt}],
                stream=True,
            )
            async for _ in stream:
                pass
    return (time.process_time() - began) / _DELTAS * 1e6


BENCHMARK = Benchmark("CPU time of a worker for a delta", "µs", _sample, runs=5, target=40)
