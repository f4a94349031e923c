"""The provisioner of a front: a zygote, another one when it dies, plain subprocesses when none starts."""

from __future__ import annotations

import logging
import os
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from shared.processes import descendants, signal_all
from supervisor.provision.base import CannotSpawn
from supervisor.provision.guardian import Guardian
from supervisor.provision.subprocess import SubprocessProvisioner, reap_orphans
from supervisor.provision.zygote import Zygote, start_process

if TYPE_CHECKING:
    import signal
    import socket
    import subprocess

    from shared.frames import WorkerSpec
    from supervisor.provision.base import WorkerHandle

log = logging.getLogger(__name__)

MAX_DEATHS: Final = 3
DEATH_WINDOW: Final = 30.0
"""A zygote that died this often within this many seconds is not started again."""


class ZygoteProvisioner:
    """See WorkerProvisioner. `run` must run beside it."""

    def __init__(self, started: tuple[subprocess.Popen[bytes], socket.socket] | None) -> None:
        self._zygote = Zygote(*started) if started is not None else None
        self._replaced = anyio.Event()
        """Set when another zygote, or none, takes the place of the one there is."""
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        self._fallback = SubprocessProvisioner(self._spared)
        self._workers: dict[tuple[str, int], WorkerHandle] = {}
        self._guardian = Guardian()
        """Of the workers that have no zygote above them."""
        self._ending = False

    @property
    def zygote_pid(self) -> int | None:
        """The zygote that lives now."""
        return self._zygote.pid if self._zygote is not None and not self._zygote.dead else None

    @property
    def zygote_warm(self) -> bool:
        """Forks are answered at once."""
        return self._zygote is not None and self._zygote.warm

    async def run(self) -> None:
        """Keep a zygote alive, where the kernel can have one at all."""
        while self._zygote is not None:
            await self._zygote.run()
            if self._ending:
                return
            self._guardian.guard([handle.pid for handle in self._workers.values()])
            self._zygote = self._another()
            self._replaced.set()
            self._replaced = anyio.Event()
            while self._zygote is None:
                # Whatever killed them may have passed; until then workers are slow to start, not gone.
                await anyio.sleep(DEATH_WINDOW)
                self._deaths.clear()
                self._zygote = self._another()

    def _another(self) -> Zygote | None:
        now = anyio.current_time()
        self._deaths.append(now)
        if len(self._deaths) == MAX_DEATHS and now - self._deaths[0] < DEATH_WINDOW:
            log.error("the zygote died %d times; workers start as plain subprocesses", MAX_DEATHS)
            return None
        try:
            return Zygote(*start_process(1))  # descriptor 1 is the log
        except OSError as e:
            log.error("no zygote can be started (%s); workers start as plain subprocesses", e)
            return None

    async def spawn(self, spec: WorkerSpec, lock_fd: int) -> WorkerHandle:
        """See WorkerProvisioner."""
        key = (spec.session_id, spec.epoch)
        self._workers = {k: h for k, h in self._workers.items() if k[0] != spec.session_id or k == key}
        if key not in self._workers:
            self._workers[key] = await self._start(spec, lock_fd)
        return self._workers[key]

    async def _start(self, spec: WorkerSpec, lock_fd: int) -> WorkerHandle:
        while (zygote := self._zygote) is not None:
            replaced = self._replaced
            try:
                return await zygote.fork(spec, lock_fd)
            except (CannotSpawn, OSError) as e:
                log.warning("no fork for session %s: %s", spec.session_id, e)
            if not zygote.dead:
                break
            # Another is warm in 2 s, as long as one plain subprocess takes, and serves all who wait.
            await replaced.wait()
        handle = await self._fallback.spawn(spec, lock_fd)
        self._guardian.guard([handle.pid])
        return handle

    def forget(self, session_id: str, epoch: int) -> None:
        """See WorkerProvisioner."""
        self._workers.pop((session_id, epoch), None)

    def _spared(self) -> set[int]:
        spared = {handle.pid for handle in self._workers.values()} | self._guardian.pids
        if self._zygote is not None:
            spared.add(self._zygote.pid)
        return spared

    async def sweep(self, number: signal.Signals) -> int:
        """See WorkerProvisioner. Looks below the zygote, and below the front for what landed there."""
        left = await self._zygote.sweep(number) if self._zygote is not None else 0
        below = descendants(os.getpid(), spare=self._spared())
        signal_all(below, number)
        reap_orphans(self._spared())
        return left + len(below)

    async def aclose(self) -> None:
        """See WorkerProvisioner."""
        self._ending = True
        if self._zygote is not None and not self._zygote.warm:
            self._zygote.kill()  # it imports and does not listen; nothing is below it yet
        elif self._zygote is not None:
            self._zygote.let_go()
            with anyio.move_on_after(0.5) as waiting:
                await self._zygote.gone()
            if waiting.cancelled_caught:
                self._zygote.kill()
        self._guardian.close()
        await self._fallback.aclose()
