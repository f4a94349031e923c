"""The sessions that are open in this front: found, opened from disk, created, forked, closed, deleted.

What is asked of one session is done in the order in which it was asked: `ordered` queues it, so that a
cancel cannot overtake the prompt that it is for while that waits for the disk.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from anyio import to_thread

from shared.errors import INTERNAL_ERROR, INVALID_PARAMS, RequestError, unknown_session
from shared.lock import SessionHeld, SessionLock, acquire_within
from shared.meta import Meta
from shared.store import NewerFormat, SessionNotFound
from supervisor import options
from supervisor.live import LiveSession
from supervisor.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from supervisor.params import NewParams, OpenParams
    from supervisor.services import Services

_Done = TypeVar("_Done")

LOCK_WITHIN: Final = 3.0
"""Seconds to wait for a session's lock: a killed front's worker may take one to die."""


class Registry:
    """All open sessions. `default_model` tells the model of a new one, and may block."""

    def __init__(self, services: Services, default_model: Callable[[], str]) -> None:
        self.services = services
        self._default_model = default_model
        self.live: dict[str, LiveSession] = {}
        self._order: dict[str, anyio.Lock] = defaultdict(anyio.Lock)

    @asynccontextmanager
    async def ordered(self, session_id: str) -> AsyncIterator[None]:
        """One at a time for a session, first come, first served."""
        lock = self._order[session_id]
        async with lock:
            yield
        if session_id not in self.live and not lock.statistics().tasks_waiting:
            self._order.pop(session_id, None)

    async def create(self, params: NewParams, cwd: str) -> LiveSession:
        """A new session, on disk when this returns."""

        def make() -> Meta:
            meta = self._new_meta(params, cwd, options.defaults(self._default_model()))
            self.services.store.create(meta)
            return meta

        live = await self._open(await self._on_disk(make), 0)
        live.machine.servers = params.mcpServers
        return live

    async def fork(self, source_id: str, params: OpenParams, cwd: str) -> LiveSession:
        """A new session with the source's history, a complete copy on disk when this returns."""
        source = self.live[source_id].meta if source_id in self.live else await self.stored(source_id)
        meta = self._new_meta(params, cwd, source.options).model_copy(
            update={"parent": source_id, "title": source.title}
        )
        await self._on_disk(self.services.store.fork, source_id, meta)
        live = await self._open(meta, 0)
        live.machine.servers = params.mcpServers
        return live

    def _new_meta(self, params: NewParams | OpenParams, cwd: str, chosen: dict[str, str]) -> Meta:
        now = time.time()
        return Meta(
            session_id=str(uuid.uuid4()),
            cwd=cwd,
            created=now,
            updated=now,
            options=chosen,
            directories=params.additionalDirectories,
            mcp_servers=[server.name for server in params.mcpServers],
        )

    async def stored(self, session_id: str) -> Meta:
        """The meta on disk. Raises RequestError for what is no session, or one of a newer version."""

        def read() -> Meta:
            meta = self.services.store.meta(session_id)
            return meta.model_copy(update={"options": options.complete(meta.options, self._default_model())})

        try:
            return await self._on_disk(read)
        except NewerFormat as e:
            raise RequestError(INTERNAL_ERROR, str(e), session_id=session_id) from None

    async def open(self, session_id: str) -> LiveSession:
        """The session, from disk if it is not open here."""
        live = self.live.get(session_id)
        return live if live is not None else await self._open(await self.stored(session_id), LOCK_WITHIN)

    async def _open(self, meta: Meta, wait: float) -> LiveSession:
        folder = self.services.store.folder(meta.session_id)
        try:
            if wait:
                lock = await acquire_within(folder, wait)
                meta = await self.stored(meta.session_id)  # its holder may have changed it
            else:
                lock = await to_thread.run_sync(SessionLock.acquire, folder)
        except SessionHeld as e:
            held_by = f"process {e.pid}" if e.pid else "another process"
            details = f"The session is open in {held_by}. Close it there, or end that process."
            data = {"session_id": meta.session_id} | ({"pid": e.pid} if e.pid else {})
            raise RequestError(INTERNAL_ERROR, details, **data) from None
        except OSError as e:
            raise _disk_error(e) from e
        live = self.live[meta.session_id] = LiveSession(meta, lock, self.services)
        return live

    async def move(self, live: LiveSession, params: OpenParams) -> None:
        """Settle the `cwd` of a load or resume: the stored one holds while it exists. Take its MCP servers.

        A client that names none does not take away those that another gave: a load disturbs nothing.
        """
        stored = live.meta.cwd
        asked, there = await to_thread.run_sync(_looked_at, params.cwd, stored)
        changed: dict[str, Any] = {}
        if asked != stored:
            if there:
                details = f"The session belongs to {stored}. Open it with that cwd, or fork it to {asked}."
                raise RequestError(INVALID_PARAMS, details, cwd=f"must be {stored}")
            changed["cwd"] = asked
        if params.additionalDirectories and params.additionalDirectories != live.meta.directories:
            changed["directories"] = params.additionalDirectories
        if live.meta.closed:
            changed["closed"] = False
        servers = params.mcpServers or live.machine.servers
        names = [server.name for server in servers]
        if names != live.meta.mcp_servers:
            changed["mcp_servers"] = names
        if changed:
            await self._saved(live, **changed)
            live.machine.directories = list(live.meta.directories)
        if changed.keys() & {"cwd", "directories"}:
            live.do(live.machine.replace_worker())
        if servers != live.machine.servers:
            live.do(live.machine.use_servers(servers))

    async def _saved(self, live: LiveSession, **changed: Any) -> None:
        try:
            await live.save_meta(**changed)
        except OSError as e:
            raise _disk_error(e) from e

    async def set_options(self, live: LiveSession, changed: dict[str, str]) -> None:
        """Change options, on disk when this returns."""
        await self._saved(live, options={**live.meta.options, **changed})
        live.do(live.machine.configure(dict(live.meta.options)))

    async def close(self, live: LiveSession, *, closed: bool = True) -> None:
        """End a session here: its turn is cancelled, its worker goes, its history stays."""
        live.do(live.machine.close())
        await live.worker_gone()
        try:
            if closed:
                await self._saved(live, closed=True)
        finally:
            self.live.pop(live.meta.session_id, None)
            live.release()

    async def delete(self, session_id: str) -> None:
        """Remove a session from disk; one that is not there is no error."""
        live = self.live.get(session_id)
        if live is None:
            try:
                live = await self.open(session_id)
            except RequestError as e:
                if e.data.get("session_id") == "Session not found":
                    return
                raise
        await self.close(live, closed=False)
        await self._on_disk(self.services.store.delete, session_id)

    async def page(self, cwd: str | None, cursor: str | None) -> dict[str, Any]:
        """The answer to `session/list`."""
        try:
            metas, following = await to_thread.run_sync(self.services.store.list, cwd, cursor)
        except ValueError as e:
            raise RequestError(INVALID_PARAMS, str(e), cursor="unknown") from None
        except OSError as e:
            raise _disk_error(e) from e
        # Of those that are open here the file may lag behind what clients were told already.
        metas = [self.live[meta.session_id].meta if meta.session_id in self.live else meta for meta in metas]
        page: dict[str, Any] = {"sessions": [session_info(meta) for meta in metas]}
        if following is not None:
            page["nextCursor"] = following
        return page

    async def _on_disk(self, do: Callable[..., _Done], *args: Any) -> _Done:
        try:
            return await to_thread.run_sync(do, *args)
        except SessionNotFound:
            raise unknown_session() from None
        except OSError as e:
            raise _disk_error(e) from e


def _looked_at(asked: str, stored: str) -> tuple[str, bool]:
    """`asked` resolved, and whether `stored` is still a folder."""
    return os.path.realpath(asked), os.path.isdir(stored)


def session_info(meta: Meta) -> dict[str, Any]:
    """ACP's SessionInfo."""
    info: dict[str, Any] = {
        "sessionId": meta.session_id,
        "cwd": meta.cwd,
        "updatedAt": timestamp(meta.updated),
    }
    if meta.title:
        info["title"] = meta.title
    if meta.directories:
        info["additionalDirectories"] = meta.directories
    return info


def _disk_error(error: OSError) -> RequestError:
    where = f" ({error.filename})" if error.filename else ""
    return RequestError(
        INTERNAL_ERROR,
        f"The session's folder could not be used: {error.strerror}{where}. Nothing was changed.",
    )
