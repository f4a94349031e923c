"""Takes all figures of all peers. They alternate (A B C A B C), so that noise hits them alike."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import anyio

from ops.benchmarks.peers.figures import ALL, GAPS, LEFT, MEMORY, TIMINGS, Figure
from ops.benchmarks.peers.hazards import left_after_kill, worst_gap
from ops.benchmarks.peers.timing import memory, timings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from ops.benchmarks.peers.agents import Peer

_HAZARD_RUNS = 2
_BUDGET = 45 * 60.0
"""Seconds for all; what is not begun by then is noted as not measured."""


@dataclass
class Taken:
    """Of one peer: samples by figure, and for what there is none or that needs a word, why."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, taken: dict[str, float]) -> None:
        """One more sample of each."""
        for key, sample in taken.items():
            self.samples.setdefault(key, []).append(sample)

    def failed(self, figures: Sequence[Figure], why: str) -> None:
        """Note why there is none of those that have none; nothing where all went well."""
        for figure in figures:
            if why and figure.key not in self.samples:
                self.notes.setdefault(figure.key, why)


async def measure(peers: list[Peer], runs: int) -> dict[str, Taken]:
    """All figures by peer's name. One run to warm up the disk is thrown away."""
    taken = {peer.name: Taken() for peer in peers}
    deadline = anyio.current_time() + _BUDGET
    async with _service() as base_url:
        for step in _steps(peers, runs, base_url, taken):
            if anyio.current_time() > deadline:
                break
            await step()
    for it in taken.values():
        it.failed(ALL, "not measured: the time for all was over")
    return taken


def _steps(
    peers: list[Peer], runs: int, base_url: str, taken: dict[str, Taken]
) -> Iterator[Callable[[], Awaitable[None]]]:
    for number in range(runs + 1):
        for peer in peers:
            yield partial(_timings, peer, base_url, taken[peer.name], warm_up=number == 0)
    for peer in peers:
        yield partial(_memory, peer, base_url, taken[peer.name])
    for _, peer, figure in product(range(_HAZARD_RUNS), peers, GAPS):
        yield partial(_gap, peer, base_url, figure, taken[peer.name])
    for peer in peers:
        yield partial(_left, peer, base_url, taken[peer.name])


async def _timings(peer: Peer, base_url: str, taken: Taken, *, warm_up: bool) -> None:
    if set(taken.notes) & {figure.key for figure in TIMINGS}:
        return  # it failed before; once is enough to be told
    took: dict[str, float] = {}
    why = ""
    with anyio.move_on_after(180) as scope:
        why = await _trying(timings(peer, base_url, took))
    if scope.cancelled_caught:
        why = "not done within 180 s"
    _progress(peer, "timings", took, why)
    if not warm_up or why:
        taken.add(took)
    if why:
        taken.failed(TIMINGS, why)


async def _memory(peer: Peer, base_url: str, taken: Taken) -> None:
    held: dict[str, float] = {}
    why = await _trying(memory(peer, base_url, held))
    _progress(peer, "memory", held, why)
    taken.add(held)
    taken.failed(MEMORY, why)


async def _gap(peer: Peer, base_url: str, figure: Figure, taken: Taken) -> None:
    if figure.key in taken.notes and figure.key not in taken.samples:
        return
    found: list[tuple[float, str]] = []

    async def take() -> None:
        found.append(await worst_gap(peer, base_url, figure.key))

    why = await _trying(take())
    for gap, note in found:
        taken.add({figure.key: gap})
        if note:
            taken.notes[figure.key] = note
    taken.failed([figure], why)
    _progress(peer, figure.says, {}, f"{found}{why}")


async def _left(peer: Peer, base_url: str, taken: Taken) -> None:
    found: list[list[str]] = []

    async def take() -> None:
        found.append(await left_after_kill(peer, base_url))

    why = await _trying(take())
    for names in found:
        taken.add({LEFT.key: float(len(names))})
        if names:
            taken.notes[LEFT.key] = ", ".join(sorted(names))
    taken.failed([LEFT], why)
    _progress(peer, LEFT.says, {}, f"{found}{why}")


async def _trying(work: Awaitable[None]) -> str:
    """Why it failed, or nothing. What a peer does wrong is a figure of its own, never the end of the run."""
    try:
        await work
    except Exception as e:  # noqa: BLE001 - the table tells it
        error: Exception = e
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        # Only the first clause: what follows may quote paths of this machine.
        return str(error).partition(";")[0].partition(": {")[0][:100] or type(error).__name__
    return ""


def _progress(peer: Peer, what: str, took: dict[str, float], why: str) -> None:
    figures = " ".join(f"{key}={value:.0f}" for key, value in took.items())
    print(f"  {peer.name:18} {what}: {figures} {why}", file=sys.stderr, flush=True)


@asynccontextmanager
async def _service() -> AsyncIterator[str]:
    command = [sys.executable, "-m", "ops.benchmarks.peers.service", os.devnull]
    async with await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(await process.stdout.receive())}"
        finally:
            process.kill()
