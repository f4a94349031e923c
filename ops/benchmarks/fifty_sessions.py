"""Memory of the whole tree (PSS) with 50 sessions that are idle after a prompt."""

from __future__ import annotations

from functools import partial

from ops.benchmarks.measure import Benchmark
from ops.benchmarks.ten_sessions import held_by

BENCHMARK = Benchmark("PSS of 50 idle sessions", "MB", partial(held_by, 50), runs=2, warm_up=0, target=400)
