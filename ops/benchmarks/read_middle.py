"""Reading lines in the middle of a 10 MB file with `read_file`."""

from __future__ import annotations

import time

from ops.benchmarks.agent import ms_since
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tooling import tooling

_LINES = 200_000
_LINE = "a line of fifty characters and a newline at its end\n"


async def _sample() -> Sample:
    taken: Sample = {}
    async with tooling() as bench:
        for name, line in {"ASCII": _LINE, "not ASCII": _LINE.replace("and", "ünd")}.items():
            path = bench.folder / f"{name}.txt"
            path.write_text(line * _LINES)
            began = time.perf_counter()
            output = await bench.call(
                "read_file", path=path.name, start_line=_LINES // 2, end_line=_LINES // 2 + 50
            )
            taken[name] = ms_since(began)
            assert f"{_LINES // 2}\t" in output.text
    return {"slowest": max(taken.values()), **taken}


BENCHMARK = Benchmark("the middle of a 10 MB file", "ms", _sample, runs=11, target=20)
