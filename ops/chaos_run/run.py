"""A whole run: the double, the fronts one after the other, the players, the strikes, and what is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import anyio
import psutil
from anyio import to_thread

from ops.chaos_run.agent import Agent, FrontGone, start
from ops.chaos_run.plan import fault_list, strikes
from ops.chaos_run.player import Player
from ops.chaos_run.striker import Striker
from ops.chaos_run.verdict import Seen
from ops.chaos_run.visitors import Visitors
from ops.double import double
from shared.processes import become_subreaper, descendants, signal_all
from supervisor.cli.ps import SOCKET_NAME, query
from tests.e2e.client import offline_environment

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import Process

SETTINGS: Final = {"unresponsive_after": 1.5, "kill_after_in_turn": 2.5, "kill_after_idle": 2.5}
"""Seconds: hangs are found, and recovered from, within a run."""
_WARM: Final = 30.0
"""Seconds that a front has until each session has had a turn; the run's clock stands still so long."""
_DRAIN: Final = 30.0
"""Seconds that turns have to end after the last strike."""
_GONE_WITHIN: Final = 1.0
"""Seconds after the next front's start in which the last process of a killed one is gone.

Most are gone long before. One that is stopped or holds the GIL while its zygote is dead too cannot end
itself: the next front finds and ends it.
"""


class Run:
    """One run below `home`; `seen()` is what there is to judge when `play` has returned."""

    def __init__(self, home: Path, seed: int, sessions: int, seconds: float, clients: int = 0) -> None:
        self._home = home
        self._seed = seed
        self._plan = strikes(seed, sessions, seconds)
        self._seconds = seconds
        self._players = [Player(seed, number, home / f"work-{number}") for number in range(sessions)]
        self._agents: list[Agent] = []
        self._there = anyio.Event()
        self._over = False
        self._left: list[str] = []
        self._died: set[int] = set()
        self._visiting: anyio.CancelScope
        self._stopped_at = 0.0
        for folder in ("armed", "config", "run", *(player.cwd.name for player in self._players)):
            (home / folder).mkdir()
        (home / "config" / "settings.json").write_text(json.dumps(SETTINGS))
        self._striker = Striker(home / "armed")
        socket = home / "run" / "iac-code" / "shared.sock"
        self._shared = socket if clients else None
        self._visitors = Visitors(clients, seed, socket, self._players, home)

    async def play(self) -> None:
        """Play all sessions for the run's time, strike, let every turn end, end the front."""
        become_subreaper()  # whatever outlives a front shows up below this process
        async with double() as model, anyio.create_task_group() as tasks:
            self._environment = {
                **offline_environment(self._home),
                **model,
                "XDG_RUNTIME_DIR": str(self._home / "run"),
                "IAC_CODE_FAULTS": fault_list(str(self._home / "armed")),
            }
            spared = {process.pid for process in descendants(os.getpid())}
            await self._start(tasks)
            tasks.start_soon(self._striker.watch_armed)
            tasks.start_soon(self._visit)
            with anyio.move_on_after(self._seconds + 2 * _WARM + _DRAIN):
                async with anyio.create_task_group() as playing:
                    for player in self._players:
                        playing.start_soon(self._play, player)
                    await self._strike(tasks)
            self._stopped_at = time.time()
            await self._end()
            left = descendants(os.getpid(), spare=spared)
            self._left += [f"at the end: {_described(process)}" for process in left]
            signal_all(left, signal.SIGKILL)
            tasks.cancel_scope.cancel()

    async def _start(self, tasks: anyio.abc.TaskGroup) -> None:
        with anyio.fail_after(_WARM):
            agent = await start(self._environment, self._route, self._seed, tasks, self._shared)
        self._agents.append(agent)
        self._there.set()

    async def _visit(self) -> None:
        with anyio.CancelScope() as self._visiting:
            await self._visitors.visit()

    def _route(self, session_id: str, update: dict[str, Any]) -> None:
        for player in self._players:
            if player.session_id == session_id:
                player.take(update)

    async def _play(self, player: Player) -> None:
        known: Agent | None = None
        while not self._over:
            await self._there.wait()
            agent = self._agents[-1]
            try:
                if known is not agent:
                    await player.open(agent)
                    known = agent
                while not self._over:
                    await player.turn(agent)
            except FrontGone:
                if self._there.is_set():  # nobody struck it
                    self._died.add(agent.front.pid)
                    return

    async def _strike(self, tasks: anyio.abc.TaskGroup) -> None:
        await self._all_turn()
        began = time.monotonic()
        for strike in self._plan:
            await anyio.sleep(max(began + strike.at - time.monotonic(), 0))
            agent = self._agents[-1]
            front = agent.front.pid
            if strike.kind == "front":
                self._there = anyio.Event()
                below = descendants(front)
                await self._striker.strike(strike, front, "")
                stopped = time.monotonic()
                await agent.front.wait()
                if agent.daemon is not None:
                    agent.process.kill()  # the editor's end would wait for another one, and go on with that
                    await agent.process.wait()
                await self._start(tasks)
                tasks.start_soon(self._count_left, below)
                await self._all_turn()
                began += time.monotonic() - stopped
            else:
                await self._striker.strike(strike, front, self._players[strike.session].session_id)
        await anyio.sleep(max(began + self._seconds - time.monotonic(), 0))
        self._striker.disarm()
        self._over = True

    async def _all_turn(self) -> None:
        """Each session has had a turn in this front. Until then, seconds, there is little to strike at."""
        with anyio.move_on_after(_WARM):
            for player in self._players:
                player.turned = anyio.Event()
            for player in self._players:
                await player.turned.wait()

    async def _count_left(self, processes: list[psutil.Process]) -> None:
        _, alive = await to_thread.run_sync(lambda: psutil.wait_procs(processes, timeout=_GONE_WITHIN))
        self._left += [f"1 s after the next front's start: {_described(process)}" for process in alive]

    async def _end(self) -> None:
        """As an editor ends it: by the end of its stdin. A shared agent: as `iac-code stop` does."""
        self._visiting.cancel()
        process, daemon = self._agents[-1].process, self._agents[-1].daemon
        if daemon is not None:
            await self._count_clients(daemon)
        assert process.stdin is not None
        await process.stdin.aclose()
        if daemon is not None:
            await process.wait()
            process = daemon
            process.terminate()
        with anyio.move_on_after(5):
            await process.wait()
        if process.returncode is None:
            self._left.append("the front, 5 s after its stdin ended")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _count_clients(self, daemon: Process) -> None:
        """Once the visitors are gone, the agent knows of the editor alone."""
        (socket,) = (self._home / "run" / "iac-code").glob(f"{daemon.pid}-*/{SOCKET_NAME}")
        connections = 0
        with anyio.move_on_after(5):
            while True:
                state = await to_thread.run_sync(query, socket)
                connections = state["connections"] if state is not None else -1
                if connections == 1:
                    return
                await anyio.sleep(0.1)
        self._left.append(f"{connections} clients in the shared agent, though one is there")

    def seen(self) -> Seen:
        """What was seen, and what is on disk. Blocking."""
        effects = {
            player.number: (player.cwd / "effects").read_text().split()
            for player in self._players
            if (player.cwd / "effects").exists()
        }
        return Seen(
            players=self._players,
            hits=self._striker.hits,
            effects=effects,
            log=self._log(),
            answers=[Counter(agent.answers) for agent in self._agents],
            bad_lines=sum(agent.bad_lines for agent in self._agents) + self._visitors.bad_lines,
            left=self._left,
            died=len(self._died),
            visits=self._visitors.came,
        )

    def _log(self) -> list[dict[str, Any]]:
        """The product's log, up to when the front was told to end; stray prints in it are passed over."""
        entries = []
        for path in sorted((self._home / "config" / "logs").glob("*.jsonl*"), reverse=True):
            for line in path.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    entry = json.loads(line)
                    if datetime.fromisoformat(entry["time"]).timestamp() <= self._stopped_at:
                        entries.append(entry)
        return entries


def _described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {process.status()} {' '.join(process.cmdline())}"
    return f"{process.pid}, gone by now"
