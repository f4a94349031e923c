"""A session that is open here: the state machine, and the hands that carry out what it decides."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
from anyio import to_thread

from shared.catalog import OFFLINE
from shared.commands import available_commands
from shared.errors import INTERNAL_ERROR, RequestError
from shared.frames import Credit
from shared.skills import skill_folders
from shared.updates import chunk, prompt_result, update_line
from supervisor import crash
from supervisor import effects as fx
from supervisor.audience import PERMISSION, Audience
from supervisor.epoch import WorkerEpoch, make_spec
from supervisor.session import USAGE_NONE, Session
from supervisor.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.frames import Ack, Header
    from shared.lock import SessionLock
    from shared.meta import Meta
    from supervisor.connection import Connection
    from supervisor.services import Services

log = logging.getLogger(__name__)

FLOOD = 64 * 2**20
"""Octets of one worker's updates that no client has read: more than credit and the largest line come to."""
CREDIT_STEP = 16 * 1024
"""Credit goes back to the worker in steps of at least this many octets."""


class LiveSession:
    """An open session: holds its lock, its meta, its clients and its worker."""

    def __init__(self, meta: Meta, lock: SessionLock, services: Services) -> None:
        self.meta = meta
        self.services = services
        self.audience = Audience(meta.session_id, services.dialect)
        self.epoch: WorkerEpoch | None = None
        self.unresponsive = False
        self.idle_since: float | None = None
        """On the event loop's clock; None while something needs the worker."""
        self.commands: list[dict[str, Any]] = []
        """Commands that the worker has beside the built-in ones: skills, prompts of MCP servers."""
        self._lock = lock
        self._owed = 0
        self._unread = 0
        self._visits = 0
        """How often a client has come."""
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
            case fx.SendData(data) if self.epoch is not None:
                self.epoch.send_data(data)
            case fx.SendControl(control) if self.epoch is not None:
                self.epoch.send_control(control)
            case fx.Answer(ticket, result):
                self._answer(ticket, result)
            case fx.Fail(ticket, error):
                self.audience.end_load(ticket)
                if (client := self.audience.client_of(ticket)) is not None:
                    client.fail(ticket, error)
            case fx.AskClient():
                self._ask(effect)
            case fx.WithdrawFromClient(key):
                self.audience.withdraw(key)
            case fx.Spawn(number, delay):
                self._spawn(number, delay)
            case fx.Kill(reason) if self.epoch is not None:
                self.services.liveness.forget(self.meta.session_id)
                self.epoch.kill(reason)
            case fx.StopWorker(reason) if self.epoch is not None:
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

    # Its clients

    def attach(self, client: Connection) -> None:
        """The client gets updates, and is asked what is open, from now on or from its load's end on."""
        if client.gone:
            return
        newly = client not in self.audience.clients
        self._visits += newly
        self.audience.clients.add(client)
        if newly and client in self.audience.receivers():
            self.audience.ask_again(client, self.machine.open_requests())

    def load(self, client: Connection, ticket: fx.Ticket, answer: Callable[[], dict[str, Any]]) -> None:
        """Replay the history to a client, then attach it; `answer` makes what is answered at the end."""
        if not client.gone:
            self.audience.begin_load(ticket, answer)
            self.attach(client)
            self.do(self.machine.replay(ticket))

    def detach(self, client: Connection) -> None:
        """The client has left; what runs goes on, and what was asked of it waits for another."""
        if client not in self.audience.clients:
            return
        self.audience.remove(client)
        for ask in self.machine.open_requests():
            if ask.method != PERMISSION and client.was_asked(self.meta.session_id, ask.key):
                self._nobody_to_ask(ask)
            elif not self.audience.clients:
                self.services.tasks.start_soon(self._deny_later, ask.key, self._visits)

    def leave(self, client: Connection) -> None:
        """As `detach`, for one that stays connected: nothing that it has asked or was asked stays open."""
        for ask in self.machine.open_requests():
            client.withdraw(self.meta.session_id, ask.key)
        cancelled = prompt_result("cancelled", USAGE_NONE, self.services.dialect)
        for turn in self.machine.turns():
            if turn.ticket.connection == client.number:
                client.answer(turn.ticket, cancelled)
        for ticket in self.audience.loading:
            if ticket.connection == client.number:
                details = "The session was closed while it was being loaded."
                client.fail(ticket, RequestError(INTERNAL_ERROR, details))
        self.detach(client)

    def echo(self, sender: Connection, ticket: fx.Ticket) -> None:
        """Show a prompt that was taken to the other clients."""
        for turn in self.machine.turns():
            if turn.ticket is ticket:
                self.audience.echo(sender, turn)

    def answered(self, client: Connection, key: str, result: Any, error: dict[str, Any] | None) -> None:
        """A client's answer to a request: the first counts, the others need not answer any more."""
        self.audience.withdraw(key, but=client)
        self.do(self.machine.client_answered(key, result, error))

    def _answer(self, ticket: fx.Ticket, result: bytes) -> None:
        loaded = self.audience.end_load(ticket)
        if (client := self.audience.client_of(ticket)) is None:
            return
        client.answer(ticket, result if loaded is None else loaded())
        if loaded is not None:
            self.audience.catch_up(ticket, client, self.machine.turns())
            self.announce()
            self.audience.ask_again(client, self.machine.open_requests())

    def _ask(self, ask: fx.AskClient) -> None:
        found = self.audience.ask(ask, self.machine.turn)
        if not found and ask.method != PERMISSION:
            self._nobody_to_ask(ask)
        elif not found:
            self.services.tasks.start_soon(self._deny_later, ask.key, self._visits)

    def _nobody_to_ask(self, ask: fx.AskClient) -> None:
        error = {"code": INTERNAL_ERROR, "message": "the client that prompted is gone"}
        self.do(self.machine.client_answered(ask.key, None, error))

    async def _deny_later(self, key: str, visits: int) -> None:
        """Nobody came to answer: a turn must not wait for ever."""
        await anyio.sleep(self.services.settings.answer_within)
        if visits == self._visits and key in {ask.key for ask in self.machine.open_requests()}:
            fields = {"session": self.meta.session_id}
            log.warning("a permission is denied: no client came to answer", extra={"fields": fields})
            self.do(self.machine.client_answered(key, {"outcome": {"outcome": "cancelled"}}, None))

    def _publish(self, line: bytes, owed: int) -> None:
        """To all clients; credit goes back when the first has taken it, so a slow one holds up nobody."""
        receivers = self.audience.receivers()
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

        client = self.audience.client_of(ticket)
        if client is not None and ticket in client.open:
            self.audience.replays(ticket, line, self.machine.turns())
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
        spec = make_spec(services, self.meta, number, sdk=self.machine.options["model"] != OFFLINE)
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
