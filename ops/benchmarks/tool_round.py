"""What a round through a tool adds to a turn, less what the SDK alone takes for the very same requests."""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
    with TemporaryDirectory(prefix="iac-bench-") as folder:
        log = Path(folder) / "requests"
        async with double(str(log)) as model, agent(model) as it:
            for n in range(_ROUNDS):
                (it.home / f"f{n}").write_text("one line\n" * 20)
            await it.initialize()
            session = await it.new_session()
            await it.prompt(session, _prompt(2))
            began = time.perf_counter()
            await it.prompt(session, _prompt(_ROUNDS))
            a_round = ms_since(began) / (_ROUNDS + 1)
            asked = [json.loads(line)["body"] for line in log.read_text().splitlines()[-(_ROUNDS + 1) :]]
            bare = await _bare(model["ANTHROPIC_BASE_URL"], asked)
    return {"added": a_round - bare, "a round": a_round, "bare SDK request": bare}


async def _bare(base_url: str, asked: list[dict[str, Any]]) -> float:
    """Milliseconds of one of these requests, in the mean."""
    async with anthropic.AsyncAnthropic(api_key="sk-double", base_url=base_url) as client:
        began = 0.0
        for n, body in enumerate([asked[0], *asked]):
            # The first makes the connection.
            began = time.perf_counter() if n == 1 else began
            async with await client.messages.create(**body) as stream:
                async for _ in stream:
                    pass
        return ms_since(began) / len(asked)


BENCHMARK = Benchmark("a round through read_file in a turn", "ms", _sample, runs=5, target=5)
"""The 20 rounds and the turn's own beginning and end, over 21 requests."""
