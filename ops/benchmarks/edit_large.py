"""One `edit_file` in the middle of a 5 MB file, by what the file's bytes are like."""

from __future__ import annotations

import time

from ops.benchmarks.agent import ms_since
from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.tooling import tooling

_LINES = 100_000
_ASCII = "a line of fifty characters and a newline at its end"
_OTHER = _ASCII.replace("and", "ünd").replace("end", "终")


def _variants() -> dict[str, bytes]:
    def joined(line: str, end: str, codec: str = "utf-8") -> bytes:
        lines = [line] * _LINES
        lines[_LINES // 2] = "the line to change"
        return (end.join(lines) + end).encode(codec)

    mixed = joined(_ASCII, "\n").replace(b"end\na", b"end\r\na", _LINES // 3)
    return {
        "LF": joined(_ASCII, "\n"),
        "CRLF": joined(_ASCII, "\r\n"),
        "mixed": mixed,
        "not ASCII": joined(_OTHER, "\n"),
        "not ASCII, CRLF": joined(_OTHER, "\r\n"),
        "Latin-1": joined(_ASCII.replace("and", "ünd"), "\n", "latin-1"),
    }


_DATA = _variants()


async def _sample() -> Sample:
    taken: Sample = {}
    async with tooling() as bench:
        for name, data in _DATA.items():
            path = bench.folder / f"{name}.txt"
            path.write_bytes(data)
            await bench.call("read_file", path=path.name, end_line=1)
            began = time.perf_counter()
            await bench.call(
                "edit_file", path=path.name, old_string="to change\na line", new_string="changed\nand a line"
            )
            taken[name] = ms_since(began)
            assert b"the line changed" in path.read_bytes()
    return {"slowest": max(taken.values()), **taken}


BENCHMARK = Benchmark("edit of a 5 MB file", "ms", _sample, runs=11, warm_up=2, target=50)
