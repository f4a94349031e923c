"""The ACP methods after `initialize`, by name. Each answers its ticket once, now or when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.errors import RequestError, unknown_session
from supervisor import auth, options, params
from supervisor.title import title_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.catalog import Catalog
    from supervisor.connection import Connection
    from supervisor.effects import Ticket
    from supervisor.live import LiveSession
    from supervisor.registry import Registry

    Method = Callable[[Connection, Ticket, Any], Awaitable[None]]


class Methods:
    """`table` maps both names of each method, the standard's and the reference's."""

    def __init__(self, registry: Registry, catalog: Catalog, *, bare: bool) -> None:
        self._registry = registry
        self._catalog = catalog
        self._bare = bare
        self.table: Final[dict[str, Method]] = {
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.resume,
            "session/fork": self.fork,
            "session/prompt": self.prompt,
            "session/cancel": self.cancel,
            "session/close": self.close,
            "session/delete": self.delete,
            "session/list": self.list,
            "sessions/list": self.list,
            "session/set_config_option": self.set_option,
            "config/set": self.set_option,
            "session/set_mode": self.set_mode,
            "session/set_model": self.set_model,
            "authenticate": auth.authenticate,
            "logout": auth.logout,
        }

    def _fields(self, live: LiveSession) -> dict[str, Any]:
        return options.session_fields(self._catalog, live.meta.options, bare=self._bare)

    async def new(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/new`."""
        asked = params.parse(params.NewParams, raw)
        cwd = params.existing_folder(asked.cwd, "cwd")
        live = await self._registry.create(asked, cwd)
        live.attach(client)
        client.answer(ticket, {"sessionId": live.meta.session_id, **self._fields(live)})
        live.announce()

    async def fork(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/fork`."""
        asked = params.parse(params.OpenParams, raw)
        cwd = params.existing_folder(asked.cwd, "cwd")
        async with self._registry.ordered(asked.sessionId):
            live = await self._registry.fork(asked.sessionId, asked, cwd)
        live.attach(client)
        client.answer(ticket, {"sessionId": live.meta.session_id, **self._fields(live)})
        live.announce()

    async def _opened(self, asked: params.OpenParams) -> LiveSession:
        live = await self._registry.open(asked.sessionId)
        try:
            params.existing_folder(asked.cwd, "cwd")
            await self._registry.move(live, asked)
        except RequestError:
            if not live.audience.clients:
                await self._registry.close(live, closed=False)
            raise
        live.machine.revive()
        return live

    async def load(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/load`: replays, then answers."""
        asked = params.parse(params.OpenParams, raw)
        async with self._registry.ordered(asked.sessionId):
            live = await self._opened(asked)
            live.load(client, ticket, lambda: self._fields(live))

    async def resume(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/resume`: answers without a replay."""
        asked = params.parse(params.OpenParams, raw)
        async with self._registry.ordered(asked.sessionId):
            live = await self._opened(asked)
            client.answer(ticket, self._fields(live))
            live.attach(client)
            live.announce()

    async def prompt(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/prompt`. A session that is on disk and not closed is restored for it."""
        asked = params.parse(params.PromptParams, raw)
        async with self._registry.ordered(asked.sessionId):
            live = await self._restored(client, asked.sessionId)
            if client.open.get(ticket) is None:
                return
            client.open[ticket] = lambda: self._cancel_prompt(live, ticket)
            blocks = asked.blocks()
            live.do(live.machine.prompt(ticket, blocks, client.capabilities))
            live.echo(client, ticket)
            if live.meta.title is None and (title := title_of(blocks)):
                live.retitle(title)
            else:
                live.update_meta()

    async def _restored(self, client: Connection, session_id: str) -> LiveSession:
        """The session, open for a client that did not load it: one that is on disk and not closed."""
        live = self._registry.live.get(session_id)
        missing: list[str] = []
        lowered = False
        if live is None:
            meta = await self._registry.stored(session_id)
            if meta.closed:
                raise unknown_session()
            live = await self._registry.open(session_id)
            if live.meta.closed:
                await self._registry.close(live, closed=False)
                raise unknown_session()
            if live.meta.options.get("mode") == "bypass_permissions":
                # Nobody who sits at this client has said that nothing need be asked.
                await self._registry.set_options(live, {"mode": "default"})
                lowered = True
            missing = live.missing_servers()
        live.attach(client)
        if lowered:
            self._tell_options(live, "mode")
        if missing:
            live.tell(
                "The MCP servers that the editor had given this session are not there, since it was not "
                f"loaded: {', '.join(missing)}. Load or resume it to have them."
            )
        return live

    @staticmethod
    def _cancel_prompt(live: LiveSession, ticket: Ticket) -> None:
        live.do(live.machine.cancel_request(ticket))

    async def cancel(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/cancel`, as a request too."""
        asked = params.parse(params.SessionParams, raw)
        async with self._registry.ordered(asked.sessionId):
            live = self._registry.live.get(asked.sessionId)
            if live is None:
                await self._registry.stored(asked.sessionId)
            else:
                live.do(live.machine.cancel())
        client.answer(ticket, {})

    async def close(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/close`."""
        asked = params.parse(params.SessionParams, raw)
        async with self._registry.ordered(asked.sessionId):
            live = await self._registry.open(asked.sessionId)
            if live.audience.clients - {client}:
                live.leave(client)  # the session closes with the last of its clients
            else:
                await self._registry.close(live)
        client.answer(ticket, {})

    async def delete(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/delete`: silent for a session that is not there."""
        asked = params.parse(params.SessionParams, raw)
        async with self._registry.ordered(asked.sessionId):
            await self._registry.delete(asked.sessionId)
        client.answer(ticket, {})

    async def list(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/list`, `sessions/list`."""
        asked = params.parse(params.ListParams, raw)
        client.answer(ticket, await self._registry.page(asked.cwd, asked.cursor))

    async def set_option(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/set_config_option`, `config/set`."""
        asked = params.parse(params.ConfigParams, raw)
        live = await self._set(client, asked.sessionId, asked.configId, asked.value)
        client.answer(ticket, {"configOptions": options.config_options(self._catalog, live.meta.options)})

    async def set_mode(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/set_mode`."""
        asked = params.parse(params.ModeParams, raw)
        await self._set(client, asked.sessionId, "mode", asked.modeId)
        client.answer(ticket, {})

    async def set_model(self, client: Connection, ticket: Ticket, raw: Any) -> None:
        """`session/set_model`."""
        asked = params.parse(params.ModelParams, raw)
        await self._set(client, asked.sessionId, "model", asked.modelId)
        client.answer(ticket, {})

    async def _set(self, client: Connection, session_id: str, option: str, value: Any) -> LiveSession:
        async with self._registry.ordered(session_id):
            live = await self._restored(client, session_id)
            catalog = self._catalog.offering(live.meta.options["model"])
            new = options.validated(catalog, option, value)
            if new != live.meta.options[option]:
                await self._registry.set_options(live, {option: new})
                self._tell_options(live, option)
            return live

    def _tell_options(self, live: LiveSession, changed: str) -> None:
        chosen = live.meta.options
        listed = options.config_options(self._catalog, chosen)
        live.say({"sessionUpdate": "config_option_update", "configOptions": listed})
        if changed == "mode":
            live.say({"sessionUpdate": "current_mode_update", "currentModeId": chosen["mode"]})
