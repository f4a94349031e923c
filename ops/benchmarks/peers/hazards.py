"""What happens to session B while session A does something bad, and what is left after SIGKILL."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from ops.benchmarks.peers.processes import at_home, end, tree
from ops.benchmarks.peers.running import Failed, Running, running
from supervisor.cli.failure import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ops.benchmarks.peers.agents import Peer

PIECES: Final = 300
EVERY: Final = 0.02
"""Seconds between the pieces of B's stream, so that it takes 6."""
_STREAM = "\n".join(f"@text {n} \n@sleep {EVERY}" for n in range(PIECES))
_BEGIN_AFTER = 1.0
_OVER_AFTER: Final = 20.0
"""Seconds that B's stream is waited for."""
_LEFT_AFTER = 3.0
"""Seconds that processes have to end after the agent was killed."""


def _fifo(it: Running) -> str:
    os.mkfifo(it.work / "fifo")
    return it.peer.open(it.work / "fifo")


def _regex(it: Running) -> str | None:
    (it.work / "text").mkdir()
    (it.work / "text" / "a.txt").write_text("a" * 40 + "!\n")
    return it.peer.find("(a+)+$", it.work / "text")


def _print(it: Running) -> str:
    return it.peer.run("yes 0123456789abcdef | head -c 1500000000")


def _kill(it: Running) -> str:
    return it.peer.run("kill -9 $PPID")


HAZARDS: Final[dict[str, Callable[[Running], str | None]]] = {
    "quiet": lambda it: "@text nothing",
    "fifo": _fifo,
    "regex": _regex,
    "print": _print,
    "kill": _kill,
}


async def worst_gap(peer: Peer, base_url: str, hazard: str) -> tuple[float, str]:
    """Milliseconds that B waited at worst, and a note where its stream did not come to its end.

    Raises Failed where A could not be brought to do it.
    """
    async with running(peer, base_url) as it:
        if (directive := HAZARDS[hazard](it)) is None:
            raise Failed("offers no such tool")
        await it.initialize()
        a, b = await it.new_session(), await it.new_session()
        for session in (a, b):
            await it.prompt(session, "@text warm")
        it.chunks[b].clear()
        ended = ""
        with anyio.move_on_after(_OVER_AFTER) as streaming:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_do, it, a, directive)
                try:
                    await it.prompt(b, _STREAM)
                except CommandError:
                    ended = "B ended with the agent"
                tasks.cancel_scope.cancel()
        if not it.chunks[b]:
            raise Failed("B said nothing")
        until = time.perf_counter()
        if streaming.cancelled_caught:
            ended = f"B not over after {_OVER_AFTER:.0f} s"
        if ended:
            return it.worst_gap(b, until), ended
        return it.worst_gap(b, it.chunks[b][-1][0]), ""


async def _do(it: Running, session_id: str, directive: str) -> None:
    await anyio.sleep(_BEGIN_AFTER)
    # The agent's end is B's to tell.
    with suppress(CommandError):
        await it.prompt(session_id, directive)


async def left_after_kill(peer: Peer, base_url: str) -> list[str]:
    """Names of what is alive some time after the agent's process group was SIGKILLed in a command.

    Raises Failed if the command did not start.
    """
    async with running(peer, base_url) as it:
        await it.initialize()
        session = await it.new_session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_do, it, session, it.peer.run("setsid sleep 301 & nohup sleep 302 & sleep 303"))
            with anyio.move_on_after(20) as waiting:
                while not {"301", "302", "303"} <= _sleeping(it):  # noqa: ASYNC110 - the processes are others'
                    await anyio.sleep(0.05)
            if waiting.cancelled_caught:
                raise Failed("its command did not start")
            before = tree(it.pid, it.home)
            os.killpg(it.pid, signal.SIGKILL)
            await anyio.sleep(_LEFT_AFTER)
            left = [process for process in before if process.is_running() and process.status() != "zombie"]
            left += [process for process in at_home(it.home) if process not in left]
            names = [process.name() for process in left]
            end(left)
            tasks.cancel_scope.cancel()
    return names


def _sleeping(it: Running) -> set[str]:
    return {
        process.cmdline()[-1]
        for process in tree(it.pid, it.home)
        if process.is_running() and process.name() == "sleep" and process.cmdline()
    }
