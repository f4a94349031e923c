"""A command that prints 200 MB: how much the worker grows by it, and how long it takes."""

from __future__ import annotations

import time

import anyio
import psutil

from ops.benchmarks.agent import agent
from ops.benchmarks.measure import Benchmark, Sample
from ops.double import double

_OCTETS = 200_000_000
_COMMAND = f"yes abcdefghij | head -c {_OCTETS}"


async def _sample() -> Sample:
    async with double() as model, agent(model) as it:
        await it.initialize()
        session = await it.new_session()
        await it.prompt(session, '@tool bash {"command": "true"}\n@text warm')
        worker = psutil.Process(await it.worker(session))
        before = worker.memory_info().rss
        began = time.perf_counter()
        await it.prompt(session, f'@tool bash {{"command": "{_COMMAND}"}}\n@text done')
        seconds = time.perf_counter() - began
        # The most it ever had resident, as the kernel kept it.
        peak = await _peak(worker.pid)
        return {"growth": (peak - before) / 2**20, "MB/s": _OCTETS / 1e6 / seconds}


async def _peak(pid: int) -> int:
    """Octets of a process's largest resident size."""
    lines = (await anyio.Path(f"/proc/{pid}/status").read_text()).splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024


BENCHMARK = Benchmark("growth of a worker by 200 MB of output", "MB", _sample, runs=3, warm_up=0, target=20)
