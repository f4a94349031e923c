"""Everything of a front but its connections: built once, stopped once."""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from setproctitle import setproctitle

from shared import catalog, logs, settings
from shared.errors import INTERNAL_ERROR, RequestError
from shared.paths import config_dir, logs_dir, runtime_root, sessions_dir
from shared.processes import become_subreaper
from shared.store import Store
from supervisor.control_socket import ControlSocket
from supervisor.front import Front
from supervisor.hibernation import hibernate_idle
from supervisor.link import FrontLink
from supervisor.liveness import Liveness
from supervisor.memory import watch_memory
from supervisor.methods import Methods
from supervisor.provision.zygotes import ZygoteProvisioner
from supervisor.registry import Registry
from supervisor.restarts import BootBreaker
from supervisor.runtime import RuntimeFolder, clean_stale
from supervisor.services import Services
from supervisor.tasks import FrontTasks
from supervisor.watch import watch_workers

if TYPE_CHECKING:
    from collections.abc import Collection

    from anyio.abc import TaskGroup

    from shared.updates import Dialect
    from supervisor.acp import Started
    from supervisor.connection import Connection

log = logging.getLogger(__name__)

SAVE_WITHIN = 1.5
"""Seconds that workers have to save a running turn when the front ends."""


class Server:
    """The services of a front and the tasks that keep them."""

    def __init__(self, front: Front, registry: Registry) -> None:
        self.front = front
        self._registry = registry

    @classmethod
    async def start(
        cls, log_fd: int, zygote: Started, dialect: Dialect, tasks: TaskGroup, *, is_shared: bool = False
    ) -> Server:
        """Raises StartError for settings or a runtime folder that cannot be used."""
        from supervisor.acp import StartError

        logs.start(log_fd, "front", rotates=logs_dir() / logs.FILE_NAME)
        setproctitle("iac-code: supervisor")
        become_subreaper()
        try:
            chosen, models = _settings()
            root = runtime_root(log.warning)
            runtime = RuntimeFolder(root)
        except (settings.SettingsError, catalog.CatalogError, RuntimeError, OSError) as e:
            raise StartError(str(e)) from e
        kept = FrontTasks(tasks)
        provisioner = ZygoteProvisioner(zygote)
        services = Services(
            settings=chosen,
            store=Store(sessions_dir()),
            link=FrontLink(runtime.path),
            provisioner=provisioner,
            runtime=runtime,
            liveness=Liveness(chosen),
            breaker=BootBreaker(),
            tasks=kept,
            dialect=dialect,
            log_path=lambda: logs_dir() / logs.FILE_NAME,
        )
        # Looked up for each new session: the user may log in or out while this runs.
        registry = Registry(services, partial(catalog.default_model, os.environ, config_dir(), chosen.model))
        if zygote is not None:
            runtime.add(zygote[0].pid)
        kept.keep(services.link.receive_control)
        kept.keep(services.link.receive_data)
        kept.keep(provisioner.run)
        kept.keep(lambda: watch_workers(registry))
        kept.keep(lambda: watch_memory(registry))
        kept.keep(lambda: hibernate_idle(registry))
        kept.keep(ControlSocket(runtime.path, registry, provisioner, is_shared=is_shared).serve)
        kept.start_soon(to_thread.run_sync, clean_stale, root, runtime.path)
        log.info("front started", extra={"fields": {"runtime": str(runtime.path)}})
        return cls(Front(registry, Methods(registry, models, bare=dialect == "acp"), kept), registry)

    def take_up_marked(self) -> None:
        """Take up the turns that ran when the agent before this one ended, if the settings want it.

        In the background: a store of thousands of sessions, or a lock that is held, keeps no client waiting.
        """
        services = self._registry.services
        if services.settings.resume_after_restart:
            services.tasks.start_soon(self._find_marked)

    async def _find_marked(self) -> None:
        services = self._registry.services
        cursor: str | None = None
        while True:
            metas, cursor = await to_thread.run_sync(services.store.list, None, cursor)
            for meta in metas:
                if meta.turn is not None and not meta.closed:
                    services.tasks.start_soon(self._take_up, meta.session_id)
            if cursor is None:
                return

    async def _take_up(self, session_id: str) -> None:
        try:
            async with self._registry.ordered(session_id):
                live = await self._registry.open(session_id)
                # As it is on disk now: whoever had the session in between may have ended the turn.
                if live.meta.turn is not None and not live.meta.closed:
                    live.do(live.machine.take_up(live.meta.turn))
        except RequestError as e:
            log.warning("a turn was not taken up: %s", e, extra={"fields": {"session": session_id}})

    def disconnected(self, client: Connection) -> None:
        """A client is gone; its sessions stay."""
        client.gone = True
        for live in self._registry.live.values():
            live.detach(client)

    async def stop(self, clients: Collection[Connection], *, told: bool) -> None:
        """End everything. `told`: by a signal, so the clients may still be there to hear of it."""
        self._registry.services.ending = True
        running = [live for live in self._registry.live.values() if live.machine.turn is not None]
        with anyio.move_on_after(SAVE_WITHIN):
            async with anyio.create_task_group() as group:
                for live in running:
                    if live.epoch is not None and live.epoch.pid is not None:
                        group.start_soon(live.epoch.stop, "the agent ends", SAVE_WITHIN - 0.3)
        if told:
            ends = RequestError(
                INTERNAL_ERROR, "The agent was told to end. The session is saved: load it to go on."
            )
            for live in self._registry.live.values():
                live.do(live.machine.agent_ends(ends))
            for client in clients:
                for ticket in list(client.open):
                    client.fail(ticket, ends)
            with anyio.move_on_after(0.2):
                for client in clients:
                    await client.output.flushed()
        services = self._registry.services
        await services.provisioner.aclose()
        services.link.close()
        services.runtime.close()
        log.info("front ended")


def _settings() -> tuple[settings.Settings, catalog.Catalog]:
    chosen = settings.load(config_dir())
    default = catalog.default_model(os.environ, config_dir(), chosen.model)
    return chosen, catalog.load(chosen.models, default)


def check() -> int:
    """Whether a front could start with the settings as they are; says on stderr why not. The exit code."""
    try:
        _settings()
    except (settings.SettingsError, catalog.CatalogError, OSError) as e:
        sys.stderr.write(f"{e}\n")
        return 1
    return 0
