"""Memory that is a worker's own (USS) after its first prompt."""

from __future__ import annotations

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double


async def _one(env: dict[str, str], prompt: str) -> float:
    async with agent(env) as it:
        await it.initialize()
        await it.prompt(await it.new_session(), prompt)
        return float((await it.state())["sessions"][0]["uss"]) / 2**20


async def _sample() -> Sample:
    async with double() as model:
        streamed = await _one(model, "@text hello")
        with_tool = await _one(model, '@tool bash {"command": "true"}\n@text done')
    return {
        "Messages API": streamed,
        "Messages API, with a command": with_tool,
        "offline model": await _one({}, "say hello"),
    }


BENCHMARK = Benchmark("USS of a worker after one prompt", "MB", _sample, runs=3, target=15)
