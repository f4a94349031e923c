"""Loading a long history in a worker: read, validated, repaired, indexed. Beside it JSON's own share."""

from __future__ import annotations

import tempfile
import time
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread
from msgspec.structs import replace
from pydantic_core import from_json

from ops.benchmarks.agent import ms_since
from ops.benchmarks.measure import Benchmark, Sample
from shared.lines import encode
from tests.shared.histories import whole_turn
from worker.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECORDS = 50_000
_OCTETS = 10 * 2**20


def _lines() -> Iterator[bytes]:
    for n in count():
        for record in whole_turn(f"turn-{n}", *(f"toolu_{n}_{call}" for call in range(3))):
            if record.kind == "tool_result":
                record = replace(record, text="line of output\n" * 16)
            yield encode(record)


async def _sample() -> Sample:
    with tempfile.TemporaryDirectory(prefix="iac-bench-") as folder:
        path = Path(folder) / "history.jsonl"
        path.write_bytes(b"".join(islice(_lines(), _RECORDS)))
        assert path.stat().st_size >= _OCTETS, path.stat().st_size
        # A thread keeps its last work until the next: 50,000 records of the sample before, 50 ms to free.
        await to_thread.run_sync(lambda: None)
        history = History(path, 1, lambda _: None)
        began = time.perf_counter()
        await history.load(None)
        loaded = ms_since(began)
        assert len(history.records) >= _RECORDS
        began = time.perf_counter()
        parsed = [from_json(line) for line in path.read_bytes().splitlines()]
        return {"load": loaded, "bare JSON parser": ms_since(began) if parsed else 0}


BENCHMARK = Benchmark("load a history of 50,000 records, 10 MB", "ms", _sample, runs=7, target=250)
