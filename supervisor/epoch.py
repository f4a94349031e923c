"""One incarnation of a session's worker, from its start to its end and the sweep after it."""

from __future__ import annotations

import logging
import secrets
import signal
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from shared.frames import Ping, Shutdown, WorkerSpec
from supervisor.provision.base import CannotSpawn

if TYPE_CHECKING:
    from shared.frames import Ack, DataToWorker, Header, ToWorker
    from shared.meta import Meta
    from supervisor.link import FrontLink
    from supervisor.provision.base import WorkerHandle, WorkerProvisioner
    from supervisor.runtime import RuntimeFolder
    from supervisor.services import Services

log = logging.getLogger(__name__)

STOP_WITHIN: Final = 2.0
"""Seconds that a worker has to end in good order, and what it left behind to heed SIGTERM."""

_LOOK_EVERY: Final = 0.02
"""Seconds. The kernel tells nobody when a process that is not one's child ends."""


class EpochOwner(Protocol):
    """The session that an epoch works for. Called on the event loop."""

    def worker_ready(self) -> None:
        """The worker answers."""

    def worker_frame(self, header: Header, payload: bytes) -> None:
        """A data frame of this epoch."""

    def worker_ack(self, ack: Ack) -> None:
        """The worker's loop answered a ping."""

    def worker_exited(self, reason: str, *, wanted: bool) -> None:
        """The process is gone and can write no more."""

    def worker_swept(self) -> None:
        """Nothing that it had started runs any more."""


class WorkerEpoch:
    """Runs one worker; `link` calls it with what the worker says."""

    def __init__(
        self,
        owner: EpochOwner,
        spec: WorkerSpec,
        link: FrontLink,
        provisioner: WorkerProvisioner,
        runtime: RuntimeFolder,
        ready_within: float,
    ) -> None:
        self._owner = owner
        self._spec = spec
        self._identity = bytes.fromhex(spec.identity)
        self._link = link
        self._provisioner = provisioner
        self._runtime = runtime
        self._ready_within = ready_within
        self._ready = anyio.Event()
        self._ended = anyio.Event()
        self._handle: WorkerHandle | None = None
        self._starting = anyio.CancelScope()
        self._reason: str | None = None
        self._wanted = False

    @property
    def pid(self) -> int | None:
        """The worker's process, while it lives."""
        return self._handle.pid if self._handle is not None and not self._ended.is_set() else None

    async def run(self, delay: float, lock_fd: int) -> None:
        """Start after `delay` seconds; returns when the worker is gone and swept."""
        with self._starting:
            await anyio.sleep(delay)
            asked = anyio.current_time()
            self._link.register(self._identity, self)
            try:
                self._handle = await self._provisioner.spawn(self._spec, lock_fd)
            except CannotSpawn as e:
                self._reason = self._reason or str(e)
            except Exception as e:  # a defect of ours, but the session must hear of it all the same
                log.exception("no worker was started", extra={"fields": {"session": self._spec.session_id}})
                self._reason = self._reason or f"a defect: {type(e).__name__}"
        if self._handle is None:
            self._finish(self._reason or "it was not started")
            return
        if self._reason is not None:
            self._handle.signal(signal.SIGKILL)  # it was to end while it was being started
        self._runtime.add(self._handle.pid)
        async with anyio.create_task_group() as group:
            group.start_soon(self._boot_deadline, asked)
            exit_ = await self._handle.wait()
            group.cancel_scope.cancel()
        self._provisioner.forget(self._spec.session_id, self._spec.epoch)
        self._runtime.remove(self._handle.pid)
        reason = f"{self._reason}; {exit_}" if self._reason is not None else str(exit_)
        self._handle.close()
        self._finish(reason)
        await self._sweep()
        self._owner.worker_swept()

    def _finish(self, reason: str) -> None:
        self._ended.set()
        self._link.drop(self._identity)
        fields = {"session": self._spec.session_id, "epoch": self._spec.epoch, "reason": reason}
        pid = self._handle.pid if self._handle is not None else None
        log.info("worker ended", extra={"fields": {**fields, "worker": pid}})
        self._owner.worker_exited(reason, wanted=self._wanted)

    async def _boot_deadline(self, asked: float) -> None:
        with anyio.move_on_after(self._ready_within):
            await self._ready.wait()
            assert self._handle is not None
            fields = {"session": self._spec.session_id, "epoch": self._spec.epoch, "worker": self._handle.pid}
            took = round((anyio.current_time() - asked) * 1000, 1)
            log.info("worker ready", extra={"fields": {**fields, "ms": took}})
            return
        self.kill(f"not ready within {self._ready_within:g} s")

    async def _sweep(self) -> None:
        deadline = anyio.current_time() + STOP_WITHIN
        number = signal.SIGTERM
        while True:
            # First too: the fork of a replacement, which the user waits for, would wait for a look (6 ms).
            await anyio.sleep(_LOOK_EVERY)
            if not await self._left(number):
                return
            if anyio.current_time() >= deadline:
                number = signal.SIGKILL

    async def _left(self, number: signal.Signals) -> bool:
        try:
            return await self._provisioner.sweep(number) > 0
        except OSError as e:  # no descriptor left to look with: what cannot be seen may be there
            log.warning("what a worker left could not be looked for: %s", e)
            return True

    def kill(self, reason: str) -> None:
        """End it at once. The reason stands before the signal is sent."""
        if self._reason is None:
            self._reason = reason
        if self._handle is None:
            self._starting.cancel()
        elif not self._ended.is_set():
            self._handle.signal(signal.SIGKILL)

    async def stop(self, reason: str, within: float = STOP_WITHIN) -> None:
        """End it in good order: message, SIGTERM, SIGKILL. Returns when the process is gone."""
        self._reason, self._wanted = reason, True
        if self._ready.is_set():
            self.send_control(Shutdown())
            with anyio.move_on_after(within):
                await self._ended.wait()
                return
        if self._handle is not None:
            self._handle.signal(signal.SIGTERM)
            with anyio.move_on_after(0.2):
                await self._ended.wait()
                return
        self.kill(reason)
        await self._ended.wait()

    def dump_stacks(self) -> None:
        """Have the worker write where each of its threads is; works with the GIL held, not if stopped."""
        if self._handle is not None and not self._ended.is_set():
            self._handle.signal(signal.SIGUSR1)

    def send_control(self, frame: ToWorker) -> None:
        """To this worker."""
        self._link.send_control(self._identity, frame)

    def send_data(self, frame: DataToWorker) -> None:
        """To this worker."""
        self._link.send_data(self._identity, frame)

    def ping(self, number: int) -> None:
        """Ask its loop for a sign of life."""
        self.send_control(Ping(n=number))

    def on_hello(self, pid: int) -> None:
        """See LinkPeer."""
        self._ready.set()
        self._owner.worker_ready()

    def on_ack(self, ack: Ack) -> None:
        """See LinkPeer."""
        self._owner.worker_ack(ack)

    def on_frame(self, header: Header, payload: bytes) -> None:
        """See LinkPeer."""
        self._owner.worker_frame(header, payload)


def new_identity() -> str:
    """A routing identity: 16 random octets in hex, the first not zero, which ZeroMQ keeps for itself."""
    return (b"\x01" + secrets.token_bytes(15)).hex()


def make_spec(services: Services, meta: Meta, epoch: int, *, sdk: bool) -> WorkerSpec:
    """What the worker of that epoch is started with; the provisioner adds the descriptors."""
    return WorkerSpec.model_validate(
        {
            "session_id": meta.session_id,
            "epoch": epoch,
            "identity": new_identity(),
            "control": services.link.control_endpoint,
            "data": services.link.data_endpoint,
            "session_dir": str(services.store.folder(meta.session_id)),
            "cwd": meta.cwd,
            "dialect": services.dialect,
            "sdk": sdk,
            "log": str(services.log_path()),
            "lifeline_fd": -1,
            "lock_fd": -1,
        }
    )
