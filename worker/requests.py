"""Requests of this session to its client, each waiting for its answer by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from worker.client import ClientError

if TYPE_CHECKING:
    from shared.frames import Reply
    from worker.publisher import Publisher


class ClientRequests:
    """The worker's side of `worker.client.EditorClient`, over the link."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._waiting: dict[str, anyio.Event] = {}
        self._replies: dict[str, Reply] = {}
        self.capabilities: dict[str, Any] = {}
        """As the client that prompted sent them."""

    @property
    def reads_files(self) -> bool:
        """`fs.readTextFile` was advertised."""
        return self._offers("readTextFile")

    @property
    def writes_files(self) -> bool:
        """`fs.writeTextFile` was advertised."""
        return self._offers("writeTextFile")

    @property
    def runs_terminals(self) -> bool:
        """`terminal` was advertised."""
        return self.capabilities.get("terminal") is True

    def _offers(self, method: str) -> bool:
        fs = self.capabilities.get("fs")
        return isinstance(fs, dict) and fs.get(method) is True

    async def request(self, key: str, method: str, params: dict[str, Any], timeout: float) -> Any:
        """See EditorClient."""
        with anyio.fail_after(timeout):
            result, error = await self.ask(key, method, params)
        if error is not None:
            raise ClientError(str(error.get("message") or "the client answered with an error"))
        return result

    async def ask(self, key: str, method: str, params: dict[str, Any]) -> tuple[Any, dict[str, Any] | None]:
        """The client's `(result, error)`, however long it takes. Cancelled: withdrawn."""
        arrived = self._waiting[key] = anyio.Event()
        self._publisher.request(key, method, params)
        try:
            await arrived.wait()
        except BaseException:
            self._publisher.withdraw(key)
            raise
        finally:
            del self._waiting[key]
        reply = self._replies.pop(key)
        return reply.result, reply.error

    def deliver(self, reply: Reply) -> None:
        """A client answered; an answer that nobody waits for any more is dropped."""
        if reply.key in self._waiting and reply.key not in self._replies:
            self._replies[reply.key] = reply
            self._waiting[reply.key].set()
