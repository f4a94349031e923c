"""A session that is open here: the state machine, and the hands that carry out what it decides."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
from anyio import to_thread

from shared import content
from shared.commands import available_commands
from shared.frames import Credit
from shared.skills import skill_folders
from shared.updates import Dialect, chunk, chunks, update_line
from supervisor import crash
from supervisor import effects as fx
from supervisor.epoch import WorkerEpoch, make_spec
from supervisor.session import Session
from supervisor.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.frames import Ack, Header
    from shared.lock import SessionLock
    from shared.meta import Meta
    from shared.settings import Settings
    from shared.store import Store
    from supervisor.connection import Connection
    from supervisor.link import FrontLink
    from supervisor.liveness import Liveness
    from supervisor.provision.base import WorkerProvisioner
    from supervisor.restarts import BootBreaker
    from supervisor.runtime import RuntimeFolder
    from supervisor.tasks import FrontTasks

log = logging.getLogger(__name__)

FLOOD = 64 * 2**20
"""Octets of one worker's updates that no client has read: more than credit and the largest line come to."""
CREDIT_STEP = 16 * 1024
"""Credit goes back to the worker in steps of at least this many octets."""


@dataclass
class Services:
    """What all sessions of a front share."""

    settings: Settings
    store: Store
    link: FrontLink
    provisioner: WorkerProvisioner
    runtime: RuntimeFolder
    liveness: Liveness
    breaker: BootBreaker
    tasks: FrontTasks
    dialect: Dialect
    log_path: Callable[[], Path]
    ending: bool = False
    """The front ends: no worker is started any more."""


class LiveSession:
    """An open session: holds its lock, its meta, its clients and its worker."""

    def __init__(self, meta: Meta, lock: SessionLock, services: Services) -> None:
        self.meta = meta
        self.services = services
        self.attached: set[Connection] = set()
        self.epoch: WorkerEpoch | None = None
        self.unresponsive = False
        self.idle_since: float | None = None
        """On the event loop's clock; None while something needs the worker."""
        self.loading: dict[fx.Ticket, Callable[[], dict[str, Any]]] = {}
        """What a load answers once its replay is over."""
        self.commands: list[dict[str, Any]] = []
        """Commands that the worker has beside the built-in ones: skills, prompts of MCP servers."""
        self._lock = lock
        self._owed = 0
        self._unread = 0
        self._writing_meta = anyio.Lock()
        self._worker_gone = anyio.Event()
        self._worker_gone.set()
        self.machine = Session(
            id=meta.session_id,
            epoch=meta.epoch,
            options=dict(meta.options),
            directories=list(meta.directories),
            recover=services.settings.recover,
            cancel_within=services.settings.cancel_within,
            dialect=services.dialect,
        )

    @property
    def folder(self) -> Path:
        """The session's folder on disk."""
        return self.services.store.folder(self.meta.session_id)

    def do(self, effects: list[fx.Effect]) -> None:
        """Carry out what the machine decided, in order."""
        for effect in effects:
            self._do(effect)
        if not self.machine.is_idle:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = anyio.current_time()
        turn = self.machine.turn.turn_id if self.machine.turn is not None else None
        self.services.liveness.in_turn(self.meta.session_id, turn is not None)
        if turn != self.meta.turn and not self.services.ending:
            # A front that ends leaves the mark: the next one may take the turn up.
            self.update_meta(turn=turn)

    def _do(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Publish(line, owed):
                self._publish(line, owed)
            case fx.PublishTo(ticket, line, replay):
                self._publish_to(ticket, line, replay)
            case fx.Say(update):
                self.say(update)
            case fx.SendData(data):
                if self.epoch is not None:
                    self.epoch.send_data(data)
            case fx.SendControl(control):
                if self.epoch is not None:
                    self.epoch.send_control(control)
            case fx.Answer(ticket, result):
                loaded = self.loading.pop(ticket, None)
                answer = result if loaded is None else loaded()
                self._of(ticket, lambda client: client.answer(ticket, answer))
                if loaded is not None:
                    self.announce()
                    self._of(ticket, self._ask_open)
            case fx.Fail(ticket, error):
                self.loading.pop(ticket, None)
                self._of(ticket, lambda client: client.fail(ticket, error))
            case fx.AskClient(key, method, params):
                for client in self.attached:
                    client.ask(self.meta.session_id, key, method, params)
            case fx.WithdrawFromClient(key):
                for client in self.attached:
                    client.withdraw(self.meta.session_id, key)
            case fx.Spawn(number, delay):
                self._spawn(number, delay)
            case fx.Kill(reason):
                if self.epoch is not None:
                    self.services.liveness.forget(self.meta.session_id)
                    self.epoch.kill(reason)
            case fx.StopWorker(reason):
                if self.epoch is not None:
                    self.services.liveness.forget(self.meta.session_id)
                    self.services.tasks.start_soon(self.epoch.stop, reason)
            case fx.SetTimer(name, delay):
                self.services.tasks.start_soon(self._timer, name, delay)
            case fx.Retitle(title):
                self.retitle(title)
            case fx.Offer(commands) if commands != self.commands:
                self.commands = commands
                self._say_commands()

    def say(self, update: dict[str, Any]) -> None:
        """Send a standard update of the front's own to all clients."""
        self._publish(update_line(self.meta.session_id, update, self.services.dialect), 0)

    def announce(self) -> None:
        """What a client is told once it knows the session."""
        self._say_commands()
        self.services.tasks.start_soon(self._warm)

    def _say_commands(self) -> None:
        commands = [*available_commands(), *self.commands]
        self.say({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    async def _warm(self) -> None:
        """Start the worker before the first prompt where it has more to offer than is built in.

        So an MCP server starts while the user types, and its prompts can be chosen from the first on.
        """
        skills = await to_thread.run_sync(skill_folders, Path(self.meta.cwd))
        if self.machine.servers or self.services.settings.mcp_servers or skills:
            self.do(self.machine.wake())

    def tell(self, sentence: str) -> None:
        """Show all clients a notice of the front's own."""
        self.say(chunk("agent_message_chunk", f"\n[{sentence}]\n", uuid4().hex))

    def missing_servers(self) -> list[str]:
        """Names of the MCP servers that a client once gave the session and that nobody gives now."""
        given = {server.name for server in (*self.machine.servers, *self.services.settings.mcp_servers)}
        return [name for name in self.meta.mcp_servers if name not in given]

    def retitle(self, title: str) -> None:
        """Give the session a title, and tell."""
        self.update_meta(title=title)
        self.say(
            {
                "sessionUpdate": "session_info_update",
                "title": title,
                "updatedAt": timestamp(self.meta.updated),
            }
        )

    def _of(self, ticket: fx.Ticket, use: Callable[[Connection], None]) -> None:
        for client in self.attached:
            if client.number == ticket.connection:
                use(client)

    def attach(self, client: Connection, loading: fx.Ticket | None = None) -> None:
        """The client gets updates from now on, or from the end of the load that it asked for."""
        newly = client not in self.attached
        self.attached.add(client)
        if loading is None and newly:
            self._ask_open(client)

    def detach(self, client: Connection) -> None:
        """The client has left; what runs goes on, and what was asked of it waits for another."""
        self.attached.discard(client)
        for ticket in [ticket for ticket in self.loading if ticket.connection == client.number]:
            del self.loading[ticket]
        if not self.attached and self.machine.open_requests():
            self.services.tasks.start_soon(self._deny_unanswered)

    def echo(self, sender: Connection, blocks: list[dict[str, Any]]) -> None:
        """Show what one client prompted to the others."""
        others = [client for client in self._receivers() if client is not sender]
        for block in content.to_model(blocks) if others else ():
            for update in chunks("user_message_chunk", block["text"]):
                line = update_line(self.meta.session_id, update, self.services.dialect)
                for client in others:
                    client.send(line)

    def _ask_open(self, client: Connection) -> None:
        for ask in self.machine.open_requests():
            if not client.was_asked(self.meta.session_id, ask.key):
                client.ask(self.meta.session_id, ask.key, ask.method, ask.params)

    async def _deny_unanswered(self) -> None:
        """Nobody came to answer: a turn must not wait for ever."""
        await anyio.sleep(self.services.settings.answer_within)
        if not self.attached:
            for ask in self.machine.open_requests():
                self.do(self.machine.client_answered(ask.key, {"outcome": {"outcome": "cancelled"}}, None))

    def _receivers(self) -> list[Connection]:
        # A load's replay holds all that came before its end, so it is not sent beside it.
        loading = {ticket.connection for ticket in self.loading}
        return [client for client in self.attached if client.number not in loading]

    def _publish(self, line: bytes, owed: int) -> None:
        """To all clients; credit goes back when the first has taken it, so a slow one holds up nobody."""
        receivers = self._receivers()
        unpaid = owed
        self._unread += owed
        if self._unread > FLOOD:
            # Credit would have stopped a worker long before: this one does not keep to it.
            self._do(fx.Kill(f"sent {self._unread >> 20} MiB without credit"))
        if not receivers:
            self._pay(owed)

        def written() -> None:
            nonlocal unpaid
            self._pay(unpaid)
            unpaid = 0

        for client in receivers:
            client.send(line, written if owed else None)

    def _publish_to(self, ticket: fx.Ticket, line: bytes, replay: str) -> None:
        def written() -> None:
            if self.epoch is not None and self.machine.worker == "ready":
                self.epoch.send_control(Credit(octets=len(line), replay=replay))

        for client in self.attached:
            if client.number == ticket.connection and ticket in client.open:
                client.send(line, written)
                return
        written()  # nobody waits for it any more

    def _pay(self, octets: int) -> None:
        self._owed += octets
        self._unread -= octets
        if self._owed >= CREDIT_STEP and self.epoch is not None and self.machine.worker == "ready":
            self.epoch.send_control(Credit(octets=self._owed))
            self._owed = 0

    async def _timer(self, name: str, delay: float) -> None:
        await anyio.sleep(delay)
        kind, _, turn_id = name.partition(":")
        assert kind == "cancel", name
        self.do(self.machine.cancel_overdue(turn_id))

    # The worker

    def _spawn(self, number: int, delay: float) -> None:
        services = self.services
        if services.ending:
            return
        self._owed = self._unread = 0
        self._worker_gone = anyio.Event()
        self.update_meta(epoch=number)
        now = anyio.current_time()
        if services.breaker.is_open(now):
            self._worker_gone.set()
            self.do(self.machine.exited("processes do not start", now, wanted=False, boots_stopped=True))
            return
        spec = make_spec(
            self.meta.session_id,
            number,
            link=services.link,
            folder=self.folder,
            cwd=self.meta.cwd,
            dialect=services.dialect,
            log_path=services.log_path,
        )
        self.epoch = WorkerEpoch(
            self, spec, services.link, services.provisioner, services.runtime, services.settings.ready_within
        )
        services.tasks.start_soon(self.epoch.run, delay, self._lock.fd)

    def worker_ready(self) -> None:
        """See EpochOwner."""
        now = anyio.current_time()
        self.services.breaker.on_boot()
        self.services.liveness.watch(self.meta.session_id, now)
        self.do(self.machine.ready(now))

    def worker_frame(self, header: Header, payload: bytes) -> None:
        """See EpochOwner."""
        self.do(self.machine.frame(header, payload))

    def worker_ack(self, ack: Ack) -> None:
        """See EpochOwner."""
        if ack.background != self.machine.background:
            self.machine.background = ack.background
            self.do([])
        if self.services.liveness.heard(self.meta.session_id, anyio.current_time()) is not None:
            self.unresponsive = False
            log.info("worker answers again", extra={"fields": {"session": self.meta.session_id}})

    def worker_exited(self, reason: str, *, wanted: bool) -> None:
        """See EpochOwner."""
        if self.services.ending:
            self._worker_gone.set()
            return
        if not wanted:
            crash.report(self.folder, self.meta.session_id, self.machine, reason, self.services.tasks)
        self._exited(reason, wanted=wanted)

    def _exited(self, reason: str, *, wanted: bool) -> None:
        now = anyio.current_time()
        self.services.liveness.forget(self.meta.session_id)
        self.unresponsive = False
        self._worker_gone.set()
        if self.machine.worker == "starting" and not wanted:
            self.services.breaker.on_boot_failure(now)
        stopped = self.services.breaker.is_open(now)
        self.do(self.machine.exited(reason, now, wanted=wanted, boots_stopped=stopped))

    def worker_swept(self) -> None:
        """See EpochOwner."""
        self.do(self.machine.swept())

    async def worker_gone(self) -> None:
        """Returns when there is no worker of this session."""
        await self._worker_gone.wait()

    # What is stored

    def update_meta(self, **changed: Any) -> None:
        """Change the meta; it is written in the background, after those before it."""
        self.meta = self.meta.model_copy(update={"updated": time.time(), **changed})
        self.services.tasks.start_soon(self._write_meta, self.meta)

    async def save_meta(self, **changed: Any) -> None:
        """Change the meta; durable on return. Raises OSError."""
        meta = self.meta.model_copy(update={"updated": time.time(), **changed})
        async with self._writing_meta:
            await to_thread.run_sync(self.services.store.write_meta, meta)
        self.meta = meta

    async def _write_meta(self, meta: Meta) -> None:
        try:
            async with self._writing_meta:
                if meta is self.meta:  # else a newer one is on its way
                    await to_thread.run_sync(self.services.store.write_meta, meta)
        except (OSError, LookupError) as e:
            log.warning("meta not written: %s", e, extra={"fields": {"session": meta.session_id}})

    def release(self) -> None:
        """Let go of the session's lock; the worker is gone."""
        self._lock.release()
