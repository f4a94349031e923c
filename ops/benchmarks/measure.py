"""What a benchmark is, and what is told of its samples: median, quartiles, and the load beside them."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Sample = dict[str, float]
"""One figure by variant, all taken right after one another."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`sample` is called warm-up + `runs` times inside one event loop.

    `target` is for the first variant's median: the most that is wanted, or the least where `more_is_better`;
    None where figures are only told.
    """

    says: str
    unit: str
    sample: Callable[[], Awaitable[Sample]]
    runs: int
    warm_up: int = 1
    target: float | None = None
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of a variant's samples."""

    median: float
    lower: float
    upper: float
    samples: list[float]


def spread(samples: list[float]) -> Spread:
    """Raises statistics.StatisticsError for no samples."""
    if len(samples) < 2:
        return Spread(samples[0], samples[0], samples[0], samples)
    lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, lower, upper, samples)


async def measure(benchmark: Benchmark) -> dict[str, Spread]:
    """Warm up, take the samples, and give the spread of each variant."""
    for _ in range(benchmark.warm_up):
        await benchmark.sample()
    taken = [await benchmark.sample() for _ in range(benchmark.runs)]
    return {variant: spread([sample[variant] for sample in taken]) for variant in taken[0]}


def load() -> dict[str, Any]:
    """What else the machine had to do: the load of the last minute, and its cores."""
    return {"load_1_min": round(os.getloadavg()[0], 2), "cores": os.cpu_count()}


def met(benchmark: Benchmark, variant: Spread) -> bool | None:
    """Whether the target is met; None without one."""
    if benchmark.target is None:
        return None
    if benchmark.more_is_better:
        return variant.median >= benchmark.target
    return variant.median <= benchmark.target
