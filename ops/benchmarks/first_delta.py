"""What the whole chain adds to the first delta, above the bare SDK with the same request."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anthropic

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_PAIRS = 20


async def _bare(client: anthropic.AsyncAnthropic, body: dict[str, Any]) -> float:
    began = time.perf_counter()
    first = 0.0
    async with await client.messages.create(**body) as events:
        async for event in events:
            if event.type == "content_block_delta" and not first:
                first = time.perf_counter() - began
    return first * 1000


async def _sample() -> Sample:
    ours: list[float] = []
    bare: list[float] = []
    with TemporaryDirectory(prefix="iac-bench-") as folder:
        log = Path(folder) / "requests"
        async with double(str(log)) as model, agent(model) as it:
            client = anthropic.AsyncAnthropic(api_key="sk-double", base_url=model["ANTHROPIC_BASE_URL"])
            await it.initialize()
            session = await it.new_session()
            for pair in range(_PAIRS + 2):
                began = time.perf_counter()
                chunks = await it.prompt(session, "@text hello")
                asked = json.loads(log.read_text().splitlines()[-1])["body"]
                below = await _bare(client, asked)
                if pair >= 2:  # the first ones warm both up
                    ours.append((chunks[0][0] - began) * 1000)
                    bare.append(below)
            await client.close()
    whole, sdk = statistics.median(ours), statistics.median(bare)
    return {"above the bare SDK": whole - sdk, "agent": whole, "bare SDK": sdk}


BENCHMARK = Benchmark("prompt → first delta, whole chain", "ms", _sample, runs=5, target=3)
