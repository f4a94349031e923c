"""What a round through a tool adds to a turn, less what the SDK alone takes for one more such request."""

from __future__ import annotations

import time

import anthropic

from ops.benchmarks.agent import agent, ms_since
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_ROUNDS = 20


def _prompt(rounds: int) -> str:
    """Each round reads another file: the same call again and again would be stopped."""
    calls = [f'@text round\n@tool read_file {{"path": "f{n}"}}' for n in range(rounds)]
    return "\n".join([*calls, "@text done"])


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        for n in range(_ROUNDS):
            (it.home / f"f{n}").write_text("one line\n" * 20)
        await it.initialize()
        session = await it.new_session()
        await it.prompt(session, _prompt(2))
        began = time.perf_counter()
        await it.prompt(session, _prompt(0))
        without = ms_since(began)
        began = time.perf_counter()
        await it.prompt(session, _prompt(_ROUNDS))
        a_round = (ms_since(began) - without) / _ROUNDS
        bare = await _bare(model["ANTHROPIC_BASE_URL"])
    return {"added": a_round - bare, "a round": a_round, "bare SDK request": bare}


async def _bare(base_url: str) -> float:
    """Milliseconds of one streamed request that is answered with such a call."""
    async with anthropic.AsyncAnthropic(api_key="sk-double", base_url=base_url) as client:
        began = 0.0
        for n in range(_ROUNDS + 1):
            # The first makes the connection.
            began = time.perf_counter() if n == 1 else began
            stream = await client.messages.create(
                model="claude-sonnet-4-5",
                max_tokens=64_000,
                messages=[{"role": "user", "content": _prompt(1)}],
                stream=True,
            )
            async for _ in stream:
                pass
        return ms_since(began) / _ROUNDS


BENCHMARK = Benchmark("a round through read_file in a turn", "ms", _sample, runs=5, target=5)
