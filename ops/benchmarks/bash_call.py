"""A trivial call of `bash` above the same command in a plain shell."""

from __future__ import annotations

import time

import anyio

from ops.benchmarks.agent import ms_since
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tooling import tooling

_RUNS = 15


async def _sample() -> Sample:
    plain, ours = [], []
    async with tooling() as bench:
        for _ in range(_RUNS):
            began = time.perf_counter()
            await anyio.run_process(["/bin/sh", "-c", "echo x"], cwd=bench.folder)
            plain.append(ms_since(began))
            began = time.perf_counter()
            await bench.call("bash", command="echo x")
            ours.append(ms_since(began))
    shell, call = sorted(plain)[_RUNS // 2], sorted(ours)[_RUNS // 2]
    return {"above sh -c": call - shell, "bash": call, "sh -c": shell}


BENCHMARK = Benchmark("a trivial call of bash", "ms", _sample, runs=5, target=25)
