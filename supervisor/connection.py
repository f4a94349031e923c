"""One client: what it said of itself, what it is owed, what it was asked. No state of it lives elsewhere."""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING, Any

import anyio
from pydantic_core import from_json

from shared.jsonrpc import encode, error_line, request_line, result_line
from shared.updates import bare_line, bare_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.errors import RequestError
    from supervisor.effects import Ticket
    from supervisor.stdio import OutputBuffer

_numbers = itertools.count(1)
_PROCESS = secrets.token_hex(4)
"""In the ids of requests: what an editor answers to the agent before a restart is no answer to this one."""


class Connection:
    """A client from its first line to its end."""

    def __init__(self, output: OutputBuffer) -> None:
        self.number = next(_numbers)
        self.initialized = False
        self.gone = False
        """Nothing can be sent to it any more; what it has asked is done all the same."""
        self.bare = False
        """It wants the standard alone, whatever dialect the front's workers write."""
        self.capabilities: dict[str, Any] = {}
        self.output = output
        self.open: dict[Ticket, Callable[[], None]] = {}
        """Requests that are not answered yet, each with what cancels it."""
        self._answered = anyio.Event()
        self._asked: dict[str, tuple[str, str]] = {}
        self._request_ids = itertools.count(1)

    def send(self, line: bytes, written: Callable[[], None] | None = None) -> None:
        """Queue a finished line."""
        self.output.put(bare_line(line) if self.bare else line, written)

    def answer(self, ticket: Ticket, result: bytes | dict[str, Any]) -> None:
        """Answer a request, if it was not answered before (a cancel may have done that)."""
        if self._closed(ticket):
            if self.bare:
                result = bare_result(from_json(result) if isinstance(result, bytes) else result)
            self.send(result_line(ticket.id, result if isinstance(result, bytes) else encode(result)))

    def fail(self, ticket: Ticket, error: RequestError) -> None:
        """Answer a request with an error, if it was not answered before."""
        if self._closed(ticket):
            self.send(error_line(ticket.id, error.to_json()))

    def _closed(self, ticket: Ticket) -> bool:
        was_open = self.open.pop(ticket, None) is not None
        self._answered.set()
        return was_open

    async def settled(self, within: float) -> None:
        """Wait up to `within` seconds for the answers that need no model, and for their way out."""
        with anyio.move_on_after(within):
            while any(ticket.method != "session/prompt" for ticket in self.open):
                self._answered = anyio.Event()
                await self._answered.wait()
            await self.output.flushed()

    def ask(self, session_id: str, key: str, method: str, params: bytes) -> None:
        """Send the client a request of a session."""
        request_id = f"{_PROCESS}.{self.number}.{next(self._request_ids)}"
        self._asked[request_id] = (session_id, key)
        self.send(request_line(request_id, method, params))

    def was_asked(self, session_id: str, key: str) -> bool:
        """The client has this request and has not answered it."""
        return (session_id, key) in self._asked.values()

    def withdraw(self, session_id: str, key: str) -> None:
        """A request is void: an answer that still comes is ignored, and the client is told."""
        for request_id, asked in list(self._asked.items()):
            if asked == (session_id, key):
                del self._asked[request_id]
                params = encode({"requestId": request_id})
                self.send(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":%b}\n' % params)

    def take_asked(self, request_id: Any) -> tuple[str, str] | None:
        """The session and key of a request that the client answers now; None for an id never asked."""
        return self._asked.pop(request_id, None) if isinstance(request_id, str) else None
