"""What takes how long: one start of a peer gives a figure of each kind."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import anyio

from ops.benchmarks.peers.processes import pss, tree
from ops.benchmarks.peers.running import Failed, Running, ms_since, running

if TYPE_CHECKING:
    from ops.benchmarks.peers.agents import Peer

DELTAS = 2_000
SESSIONS = (1, 10, 50)
_MEMORY_WITHIN = 180.0
"""Seconds until 50 sessions have been opened and prompted."""


async def timings(peer: Peer, base_url: str, took: dict[str, float]) -> None:
    """Fill in milliseconds of each, up to where it fails. Raises Failed, or what the client raises."""
    async with running(peer, base_url) as it:
        took["start"] = await it.initialize()
        opened: list[float] = []
        sessions: list[str] = []
        for _ in range(6):
            began = time.perf_counter()
            sessions.append(await it.new_session())
            opened.append(ms_since(began))
        took["new_first"], took["new_later"] = opened[0], statistics.median(opened[1:])
        for session in sessions:
            await it.prompt(session, "@text warm")
        took["first_delta"] = statistics.median([await _first_delta(it, sessions[0]) for _ in range(5)])
        took["deltas"] = await _deltas(it, sessions[:1])
        took["five"] = await _deltas(it, sessions[1:])
        took["cancel"] = await _cancel(it, sessions[0])


async def _first_delta(it: Running, session_id: str) -> float:
    seen = len(it.chunks[session_id])
    began = time.perf_counter()
    await it.prompt(session_id, "@text hello")
    if len(it.chunks[session_id]) == seen:
        raise Failed("a turn without text")
    return (it.chunks[session_id][seen][0] - began) * 1000


async def _deltas(it: Running, sessions: list[str]) -> float:
    """From the prompts, sent together, to the last answer. Raises Failed where text was lost."""
    before = {session: len(it.text(session)) for session in sessions}
    began = time.perf_counter()
    async with anyio.create_task_group() as turns:
        for session in sessions:
            turns.start_soon(it.prompt, session, f"@deltas {DELTAS}")
    took = ms_since(began)
    await anyio.sleep(0.2)  # some answer before the last of the text
    for session in sessions:
        if it.text(session)[before[session] :].split() != [f"tok{n}" for n in range(DELTAS)]:
            raise Failed("text was lost or out of order")
    return took


async def _cancel(it: Running, session_id: str) -> float:
    async with anyio.create_task_group() as turn:
        turn.start_soon(it.prompt, session_id, "@text begun\n@sleep 30\n@text over")
        with anyio.fail_after(20):
            await it.first_text(session_id)
        began = time.perf_counter()
        await it.client.notify("session/cancel", {"sessionId": session_id})
    took = ms_since(began)
    if it.text(session_id).endswith("over"):
        raise Failed("the turn went on to its end")
    return took


async def memory(peer: Peer, base_url: str, held: dict[str, float]) -> None:
    """Fill in MB (PSS) of all its processes with so many sessions, each after a prompt."""
    with anyio.move_on_after(_MEMORY_WITHIN):
        async with running(peer, base_url) as it:
            await it.initialize()
            for count in range(1, max(SESSIONS) + 1):
                await it.prompt(await it.new_session(), "@text hello")
                if count in SESSIONS:
                    held[f"memory_{count}"] = pss(tree(it.pid, it.home))
            return
    raise Failed(f"not done within {_MEMORY_WITHIN:.0f} s")
