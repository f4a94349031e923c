"""Requests of this session to its client, each waiting for its answer by key."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import anyio

from worker.client import ClientError

if TYPE_CHECKING:
    from shared.frames import Reply
    from worker.publisher import Publisher

log = logging.getLogger(__name__)

MUTED_FOR: Final = 300.0
_TAKES_LONG: Final = ("terminal/wait_for_exit",)


class ClientRequests:
    """The worker's side of `worker.client.EditorClient`, over the link."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._waiting: dict[str, anyio.Event] = {}
        self._replies: dict[str, Reply] = {}
        self._muted: dict[str, float] = {}
        """Methods that got no answer, and until when they are not asked."""
        self.capabilities: dict[str, Any] = {}
        """As the client that prompted sent them."""

    @property
    def reads_files(self) -> bool:
        """`fs.readTextFile` was advertised."""
        return self._offers("readTextFile") and not self._is_muted("fs/read_text_file")

    @property
    def writes_files(self) -> bool:
        """`fs.writeTextFile` was advertised."""
        return self._offers("writeTextFile") and not self._is_muted("fs/write_text_file")

    @property
    def runs_terminals(self) -> bool:
        """`terminal` was advertised."""
        return self.capabilities.get("terminal") is True and not self._is_muted("terminal/create")

    def _offers(self, method: str) -> bool:
        fs = self.capabilities.get("fs")
        return isinstance(fs, dict) and fs.get(method) is True

    def _is_muted(self, method: str) -> bool:
        return anyio.current_time() < self._muted.get(method, 0.0)

    async def request(self, key: str, method: str, params: dict[str, Any], timeout: float) -> Any:
        """See EditorClient. A method that got no answer is not offered for a while: such waits are long."""
        try:
            with anyio.fail_after(timeout):
                result, error = await self.ask(key, method, params)
        except TimeoutError:
            if method not in _TAKES_LONG:
                self._muted[method] = anyio.current_time() + MUTED_FOR
                log.warning(
                    "the client offers %s and did not answer within %g s; it is not asked for %g s",
                    method,
                    timeout,
                    MUTED_FOR,
                )
            raise
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
