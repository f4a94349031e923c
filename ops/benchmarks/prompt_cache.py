"""How much of a turn's input the service reads from its cache, in the double's accounting."""

from __future__ import annotations

import json

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_ROUNDS = 8


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        for n in range(_ROUNDS):
            (it.home / f"f{n}").write_text("one line\n" * 20)
        await it.initialize()
        session = await it.new_session()
        calls = [f'@text round\n@tool read_file {{"path": "f{n}"}}' for n in range(_ROUNDS)]
        await it.prompt(session, "\n".join([*calls, "@text done"]))
        history = it.home / "config" / "sessions" / session / "history.jsonl"
        records = [json.loads(line) for line in history.read_text().splitlines()]
    usages = [record["usage"] for record in records if record["kind"] == "assistant"]
    assert len(usages) == _ROUNDS + 1
    shares = [100 * usage["cache_read"] / usage["input"] for usage in usages[1:]]
    return {"least of a request": min(shares), "last request": shares[-1]}


BENCHMARK = Benchmark(
    "input read from the cache, from the second request of a turn on",
    "%",
    _sample,
    runs=3,
    warm_up=0,
    target=90,
    more_is_better=True,
)
