"""The first page of `session/list` with 10,000 stored sessions."""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING
from uuid import uuid4

from ops.benchmarks.agent import agent, ms_since
from ops.benchmarks.measure import Benchmark, Sample
from shared.meta import HISTORY, META, Meta

if TYPE_CHECKING:
    from pathlib import Path

_SESSIONS = 10_000


def _store(sessions: Path, cwd: Path) -> None:
    for number in range(_SESSIONS):
        folder = sessions / str(uuid4())
        folder.mkdir(parents=True, mode=0o700)
        at = 1_700_000_000.0 + number
        meta = Meta(session_id=folder.name, cwd=str(cwd), title=f"Session {number}", created=at, updated=at)
        (folder / META).write_bytes(meta.encode())
        # As the product does: lists are in the order of this time.
        os.utime(folder / META, (at, at))
        (folder / HISTORY).touch()


async def _sample() -> Sample:
    async with agent() as it:
        _store(it.home / "config" / "sessions", it.home)
        await it.initialize()
        taken: list[float] = []
        for _ in range(11):
            began = time.perf_counter()
            page = await it.client.request("session/list", {"cwd": str(it.home)})
            taken.append(ms_since(began))
            assert page["sessions"][0]["title"] == f"Session {_SESSIONS - 1}"
            assert page["nextCursor"]
    return {"later calls (median of 10)": statistics.median(taken[1:]), "first call of an agent": taken[0]}


BENCHMARK = Benchmark("first page of 10,000 stored sessions", "ms", _sample, runs=3, warm_up=0, target=50)
