"""The processes that tools start: each in a session of its own, ended with all that it left behind.

Every process has a supervising task that belongs to `Processes`, not to the call: a cancelled call
returns at once, while what it ran is still being ended. Nothing here knows what a command means.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Final, Self

import anyio
import psutil

from shared.processes import open_pidfd, signal_all
from worker.child import Child, Ended, spawn
from worker.leftovers import Trees, attribute, orphans_of, reap, zombie_children
from worker.memory import hold_to_limit
from worker.off_loop import off_loop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from worker.background import BackgroundTask
    from worker.child import Finish, Receive

_LOG: Final = logging.getLogger(__name__)

DRAIN: Final = 0.25
"""Seconds that output is still awaited after a process ended, if something it left holds the pipe."""
CANCEL_GRACE: Final = 0.5
"""Seconds from SIGTERM to SIGKILL for a cancelled call and for what an ended one left running."""
TIMEOUT_GRACE: Final = 2.0
_KILL_ROUND: Final = 0.2
_KILL_ROUNDS: Final = 25
_STOP_ALL: Final = 1.0
_WATCH: Final = 1.0


class Processes:
    """Runs a worker's child processes. The worker should be a child subreaper (`shared.processes`).

    Use as an async context manager for the life of the worker: `async with Processes() as processes`.
    Leaving it ends everything. `memory_limit` is in bytes, for all calls together;
    `longest` in seconds, for one that is waited for.
    """

    def __init__(self) -> None:
        self.memory_limit = 2 * 1024**3
        self.longest = 600.0
        self.background: dict[str, BackgroundTask] = {}
        """By id, ended ones too."""
        self._children: dict[str, Child] = {}
        self._cancelled: set[Child] = set()
        self._numbers = itertools.count(1)
        self._window: float | None = None
        """Creation time of the first of the calls that have been running without a pause until now.

        None if a background process was among them: what bears no mark may then be its.
        """
        self._busy = anyio.Event()
        # Ending processes must not wait for a place among threads that a slow disk holds.
        self._threads = anyio.CapacityLimiter(4)

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with anyio.CancelScope(shield=True):
            await self.stop_all()
        for child in self._children.values():
            child.scope.cancel()
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, trace)

    @property
    def background_count(self) -> int:
        """Background tasks that run."""
        return sum(task.running for task in self.background.values())

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        receive: Receive,
        receive_errors: Receive | None = None,
        finish: Finish | None = None,
        stdin: int = subprocess.DEVNULL,
        timeout: float | None = None,
        background: bool = False,
        rules: int | None = None,
    ) -> Child:
        """Start a process and its supervision; `receive` gets its output as it comes, `finish` ends it.

        Without `receive_errors` stderr goes the way of stdout. A `background` process is left its own
        children when it exits. `rules` are of `landlock.ruleset`. Raises OSError, and ValueError for what
        cannot be in a command line.
        """
        child = spawn(
            argv,
            str(os.getpid() << 32 | next(self._numbers)),
            cwd=cwd,
            environment=environment,
            receive=receive,
            receive_errors=receive_errors,
            finish=finish,
            stdin=stdin,
            time_limit=timeout,
            background=background,
            rules=rules,
        )
        if background:
            self._window = None
        elif not self._children:
            self._window = child.created
        self._children[child.claim.token] = child
        self._busy.set()
        self._tasks.start_soon(self._supervise, child)
        return child

    async def wait(self, child: Child) -> Ended:
        """How it ended, once all that it started is gone. Raises what its receiver raised.

        Cancelled: returns at once; SIGTERM, 0.5 s, SIGKILL and the sweep go on (see `settle`).
        """
        try:
            await child.gone.wait()
        finally:
            if child.ended is None:
                child.deaf = True
                child.stop(CANCEL_GRACE)
                self._cancelled.add(child)
        if child.failure is not None:
            raise child.failure
        # Without a word on its end it was given up at shutdown, SIGKILL sent.
        return child.ended or Ended(-signal.SIGKILL)

    async def settle(self) -> None:
        """Return when all that cancelled calls were running is gone."""
        for child in list(self._cancelled):
            await child.gone.wait()

    async def stop_all(self) -> None:
        """End every call and background task: SIGTERM, 0.5 s, SIGKILL, sweep. Returns within 1 s."""
        stopping = list(self._children.values())
        for child in stopping:
            child.stop(CANCEL_GRACE)
        with anyio.move_on_after(_STOP_ALL):
            for child in stopping:
                await child.gone.wait()

    async def _supervise(self, child: Child) -> None:
        # Shielded: whatever is cancelled around it, a process that was started is also ended.
        with child.scope:
            try:
                async with anyio.create_task_group() as watchers:
                    watchers.start_soon(child.watch_exit)
                    for fd in list(child.pipes):
                        watchers.start_soon(child.read_pipe, fd)
                    await self._until_gone(child)
                    watchers.cancel_scope.cancel()
                if child.finish is not None:
                    try:
                        await child.finish()
                    except Exception as e:  # noqa: BLE001 - as with what receives: wait() raises it
                        child.failure = e
            finally:
                del self._children[child.claim.token]
                self._cancelled.discard(child)
                child.gone.set()

    async def _until_gone(self, child: Child) -> None:
        timed_out = False
        with anyio.move_on_after(child.time_limit):
            await child.changed.wait()
        if not child.changed.is_set():
            timed_out = True
            child.stop(TIMEOUT_GRACE)
        if child.exited.is_set():
            with anyio.move_on_after(DRAIN):
                await child.drained.wait()
        if child.background and child.exited.is_set():
            await self._leave_running(child)
        left = await self._end(child, CANCEL_GRACE if child.stop_grace is None else child.stop_grace)
        # What a leftover wrote last; then nothing holds the pipe, unless it escaped every mark.
        with anyio.move_on_after(DRAIN / 2):
            await child.drained.wait()
        returncode = child.popen.poll()
        child.ended = Ended(
            -signal.SIGKILL if returncode is None else returncode, timed_out, child.memory, left
        )

    async def _leave_running(self, child: Child) -> None:
        """Wait while what a background task started in the background itself still runs."""
        child.changed = anyio.Event()
        while child.stop_grace is None:
            trees = await self._look(child)
            tree = trees.owned[child.claim.token]
            if not tree:
                return
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(_cancel_when_gone, tree, waiting.cancel_scope)
                await child.changed.wait()
                waiting.cancel_scope.cancel()

    async def _end(self, child: Child, grace: float) -> int:
        """End a process, if it still runs, and all that is left of it; the number of leftovers ended."""
        # Looked at first only to be told: most are dead before the search that follows the first signal.
        exited = child.exited.is_set()
        ended = await off_loop(orphans_of, child.pid, limiter=self._threads) if exited else set()
        number, patience = signal.SIGTERM, grace
        if grace <= 0:
            number, patience = signal.SIGKILL, _KILL_ROUND
        sent: signal.Signals | None = None
        for _ in range(_KILL_ROUNDS):
            # The group at one stroke and before any look, which outruns a fork bomb; those that left it one
            # by one. No SIGTERM twice: programs take a second one as leave to stop half way.
            if number != sent or number == signal.SIGKILL:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, number)
                sent = number
            exited = child.exited.is_set()
            # One that ends while the others are listed hands on its children behind the list's back. So what
            # is found before the shell has ended says nothing, and later only two looks that find nothing do.
            tree = await self._remains(child) or await self._remains(child)
            if not tree:
                if exited:
                    break
                with anyio.move_on_after(patience):
                    await child.exited.wait()
                continue
            await off_loop(_signal_outside, tree, child.pid, number, limiter=self._threads)
            ended.update(process.pid for process in tree if process.pid != child.pid)
            with anyio.move_on_after(patience):
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(_all_gone, tree)
                    waiting.start_soon(child.exited.wait)
            number, patience = signal.SIGKILL, _KILL_ROUND
        else:
            _LOG.error("process %d or what it started cannot be killed", child.pid)
        reap(ended)
        return len(ended)

    async def _remains(self, child: Child) -> list[psutil.Process]:
        """What lives of a call; of unmarked processes those that only this call can have started."""
        trees = await self._look(child)
        tree = trees.owned[child.claim.token]
        if self._window is not None and len(self._children) == 1:
            for unknown in trees.unknown:
                with contextlib.suppress(psutil.NoSuchProcess):
                    if unknown[0].create_time() >= self._window:
                        tree += unknown
        return tree

    async def _look(self, child: Child) -> Trees:
        claims = [other.claim for other in self._children.values()]
        spare = {other.pid for other in self._children.values() if other is not child}
        return await off_loop(attribute, claims, spare, limiter=self._threads)

    async def _watch(self) -> None:
        """While anything runs: hold it to the memory limit, and take away zombies."""
        seen: set[int] = set()
        interval = _WATCH
        while True:
            await self._busy.wait()
            await anyio.sleep(interval)
            if self._children:
                total = await hold_to_limit(self._children, self.memory_limit, self._threads)
                interval = _WATCH if total < self.memory_limit / 2 else _WATCH / 5
            spare = {child.pid for child in self._children.values()}
            zombies = await off_loop(zombie_children, spare, limiter=self._threads)
            # Another part of the worker may be about to wait for a child of its own: a second later it has.
            reap(zombies & seen)
            seen = zombies - seen
            if not self._children and not seen:
                self._busy = anyio.Event()


def _signal_outside(tree: list[psutil.Process], group: int, number: signal.Signals) -> None:
    outside = []
    for process in tree:
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process.pid) != group:
                outside.append(process)
    signal_all(outside, number)


async def _cancel_when_gone(processes: list[psutil.Process], scope: anyio.CancelScope) -> None:
    await _all_gone(processes)
    scope.cancel()


async def _all_gone(processes: list[psutil.Process]) -> None:
    """Return when each has ended."""
    for process in processes:
        fd = open_pidfd(process.pid)
        if fd is not None:
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
        else:
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 - no event
                await anyio.sleep(0.02)
