"""From a prompt to its first text with the offline model: in a session's first turn, and in its second."""

from __future__ import annotations

import time
from typing import Any

from ops.benchmarks.agent import INITIALIZE, agent, ms_since
from ops.benchmarks.measure import Benchmark, Sample


async def _sample() -> Sample:
    first: list[float] = []

    def on_update(params: dict[str, Any]) -> None:
        if not first and params["update"]["sessionUpdate"] == "agent_message_chunk":
            first.append(time.perf_counter())

    async with agent(on_update) as (client, folder):
        await client.request("initialize", INITIALIZE)
        created = await client.request("session/new", {"cwd": str(folder), "mcpServers": []})
        params = {"sessionId": created["sessionId"], "prompt": [{"type": "text", "text": "say hello"}]}
        taken: list[float] = []
        for _ in range(2):
            first.clear()
            began = time.perf_counter()
            await client.request("session/prompt", params)
            taken.append(ms_since(began) - ms_since(first[0]))
    return {"later turn": taken[1], "first turn (cold agent)": taken[0]}


BENCHMARK = Benchmark("prompt → first delta, offline model", "ms", _sample, runs=7)
