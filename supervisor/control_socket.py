"""`ps.sock` in the runtime folder: what `iac-code ps` and `sessions close` of this user ask a front."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final

import anyio
import psutil
from anyio import to_thread
from pydantic_core import from_json, to_json

from shared.errors import RequestError
from shared.version import VERSION
from supervisor.peers import same_user

if TYPE_CHECKING:
    from pathlib import Path

    from supervisor.live import LiveSession
    from supervisor.provision.zygotes import ZygoteProvisioner
    from supervisor.registry import Registry

log = logging.getLogger(__name__)

_PATIENCE: Final = 2.0
"""Seconds for a request to be sent, and for its answer to be read."""
_LONGEST: Final = 1000
"""Octets of a request."""


class ControlSocket:
    """Reads one request a connection, a JSON object a line, answers with one and closes it.

    `{}` is answered with the front's state, `{"close": ID}` closes that session, for all of its clients.
    """

    def __init__(
        self, folder: Path, registry: Registry, provisioner: ZygoteProvisioner, *, is_shared: bool
    ) -> None:
        self._registry = registry
        self._provisioner = provisioner
        self._is_shared = is_shared
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
            try:
                with anyio.fail_after(_PATIENCE):
                    asked = await _request(stream)
                answer = await self._done(asked)
                with anyio.fail_after(_PATIENCE):
                    await stream.send(to_json(answer))
            except (TimeoutError, anyio.BrokenResourceError, anyio.EndOfStream):
                log.info("who asked something of this front did not go on, or did not read the answer")
            except ValueError:
                log.info("what was asked of this front could not be read")

    async def _done(self, asked: dict[str, Any]) -> dict[str, Any]:
        if isinstance(session_id := asked.get("close"), str):
            return await self._close(session_id)
        rows = [_row(live) for live in self._registry.live.values()]
        return await to_thread.run_sync(self._state, rows)

    async def _close(self, session_id: str) -> dict[str, Any]:
        """Close a session that is open here; what became of it."""
        async with self._registry.ordered(session_id):
            live = self._registry.live.get(session_id)
            if live is None:
                return {"open": False}
            told: dict[str, Any] = {
                "open": True,
                "clients": len(live.audience.clients),
                "turns": len(live.machine.turns()),
                "background": live.machine.background,
            }
            live.tell("The session was closed with `iac-code sessions close`. Load it to go on.")
            try:
                await self._registry.close(live)
            except RequestError as e:
                told["problem"] = str(e)
        log.info("a session was closed by hand", extra={"fields": {"session": session_id}})
        return told

    def _state(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The whole answer; in a thread, since the memory of each process is read from /proc."""
        provisioner = self._provisioner
        for row in rows:
            row |= _costs(row["pid"])
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "started": self._started,
            "shared": self._is_shared,
            "connections": len({c for live in self._registry.live.values() for c in live.audience.clients}),
            **_costs(os.getpid()),
            "zygote": {"pid": provisioner.zygote_pid, "warm": provisioner.zygote_warm}
            | _costs(provisioner.zygote_pid),
            "sessions": rows,
        }


async def _request(stream: anyio.abc.SocketStream) -> dict[str, Any]:
    """Raises ValueError for what is none."""
    line = b""
    while not line.endswith(b"\n"):
        line += await stream.receive()
        if len(line) > _LONGEST:
            raise ValueError("too long")
    asked = from_json(line)
    if not isinstance(asked, dict):
        raise ValueError("no object")
    return asked


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
