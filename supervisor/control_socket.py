"""`ps.sock` in the runtime folder: tells this user's `iac-code ps` what runs here, and nobody else."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

import anyio
import psutil
from anyio import to_thread
from pydantic_core import to_json

from shared.version import VERSION
from supervisor.peers import same_user

if TYPE_CHECKING:
    from pathlib import Path

    from supervisor.live import LiveSession
    from supervisor.provision.zygotes import ZygoteProvisioner
    from supervisor.registry import Registry

log = logging.getLogger(__name__)


class ControlSocket:
    """Answers each connection with one JSON object and closes it."""

    def __init__(self, folder: Path, registry: Registry, provisioner: ZygoteProvisioner) -> None:
        self._registry = registry
        self._provisioner = provisioner
        self._started = time.time()
        self._path = folder / "ps.sock"

    async def serve(self) -> None:
        """Runs as long as the front."""
        async with await anyio.create_unix_listener(self._path, mode=0o600) as listener:
            await listener.serve(self._answer)

    async def _answer(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
            if not same_user(raw):
                log.warning("another user asked for the state of this front; refused")
                return
            rows = [_row(live) for live in self._registry.live.values()]
            try:
                with anyio.fail_after(2):
                    await stream.send(to_json(await to_thread.run_sync(self._state, rows)))
            except (TimeoutError, anyio.BrokenResourceError):
                log.info("who asked for the state of this front did not read it")

    def _state(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The whole answer; in a thread, since the memory of each process is read from /proc."""
        provisioner = self._provisioner
        for row in rows:
            row |= _costs(row["pid"])
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "started": self._started,
            "connections": len({c for live in self._registry.live.values() for c in live.attached}),
            **_costs(os.getpid()),
            "zygote": {"pid": provisioner.zygote_pid, "warm": provisioner.zygote_warm}
            | _costs(provisioner.zygote_pid),
            "sessions": rows,
        }


def _row(live: LiveSession) -> dict[str, Any]:
    machine = live.machine
    if machine.failed is not None:
        state = "failed"
    elif live.unresponsive:
        state = "unresponsive"
    elif machine.worker == "ready":
        state = "running" if machine.turn is not None else "idle"
    else:
        state = {"none": "hibernating"}.get(machine.worker, machine.worker)
    return {
        "sessionId": live.meta.session_id,
        "state": state,
        "pid": live.epoch.pid if live.epoch is not None else None,
        "epoch": machine.epoch,
        "restarts": machine.budget.total,
        "lastDeath": machine.last_death,
        "cwd": live.meta.cwd,
        "title": live.meta.title,
        "background": machine.background,
        "waiting": len(machine.waiting),
    }


def _costs(pid: int | None) -> dict[str, Any]:
    if pid is None:
        return {"uss": None, "cpu": None}
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return {"uss": process.memory_full_info().uss, "cpu": round(times.user + times.system, 2)}
    except psutil.Error:
        return {"uss": None, "cpu": None}
