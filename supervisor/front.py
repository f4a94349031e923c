"""The front: reads a client's messages, hands each to its method, answers what goes wrong.

Nothing that a client sends ends it. It runs no tool and no model and holds no history.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from shared import jsonrpc
from shared.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    RequestError,
)
from shared.updates import prompt_result
from supervisor import params
from supervisor.effects import Ticket
from supervisor.session import USAGE_NONE

if TYPE_CHECKING:
    from shared.jsonrpc import Message
    from supervisor.connection import Connection
    from supervisor.methods import Methods
    from supervisor.registry import Registry
    from supervisor.tasks import FrontTasks

log = logging.getLogger(__name__)


class Front:
    """Dispatches for all connections."""

    def __init__(self, registry: Registry, methods: Methods, tasks: FrontTasks) -> None:
        self._registry = registry
        self._methods = methods
        self._tasks = tasks

    def take(self, client: Connection, message: Message) -> None:
        """Begin to handle one message of an initialized client; returns at once.

        Methods begin in the order in which their messages came.
        """
        match message:
            case jsonrpc.Malformed(id_, error):
                client.send(jsonrpc.error_line(id_, error.to_json()))
            case jsonrpc.Response():
                self._take_answer(client, message)
            case jsonrpc.Notification(method, raw):
                self._take_notification(client, method, raw)
            case jsonrpc.Request():
                self._take_request(client, message)

    def _take_request(self, client: Connection, request: jsonrpc.Request) -> None:
        ticket = Ticket(client.number, request.id, request.method)
        if request.method == "session/prompt":
            cancelled = prompt_result("cancelled", USAGE_NONE, self._registry.services.dialect)
            client.open[ticket] = lambda: client.answer(ticket, cancelled)
        else:
            client.open[ticket] = lambda: client.fail(ticket, RequestError(REQUEST_CANCELLED))
        self._tasks.start_soon(self._answer, client, ticket, request.method, request.params)

    async def _answer(self, client: Connection, ticket: Ticket, method: str, raw: Any) -> None:
        try:
            if method == "$/cancel_request":
                self._cancel_request(client, raw)
                client.answer(ticket, {})
            elif method in self._methods.table:
                if raw is not None and not isinstance(raw, dict):
                    raise RequestError(
                        INVALID_PARAMS, "The params must be an object.", params="must be an object"
                    )
                await self._methods.table[method](client, ticket, raw)
            else:
                raise RequestError(
                    METHOD_NOT_FOUND, f"There is no method {method!r:.100}.", method=method[:100]
                )
        except RequestError as e:
            client.fail(ticket, e)
        except Exception as e:  # a defect of ours costs this request, never the front
            log.exception("%s failed", method)
            details = (
                f"{method} failed for a reason that is not the request's: {type(e).__name__}. See the log."
            )
            client.fail(ticket, RequestError(INTERNAL_ERROR, details))

    def _take_notification(self, client: Connection, method: str, raw: Any) -> None:
        if method == "session/cancel":
            self._tasks.start_soon(self._cancel, client, raw)
        elif method == "$/cancel_request":
            self._cancel_request(client, raw)
        else:
            log.info("a notification was ignored: %.100r", method)

    async def _cancel(self, client: Connection, raw: Any) -> None:
        # Nobody waits for this ticket: a notification has no answer.
        try:
            await self._methods.cancel(client, Ticket(client.number, None), raw)
        except RequestError as e:
            log.info("session/cancel was ignored: %s", e)

    @staticmethod
    def _cancel_request(client: Connection, raw: Any) -> None:
        try:
            asked = params.parse(params.CancelRequestParams, raw)
        except RequestError as e:
            log.info("$/cancel_request was ignored: %s", e)
            return
        for ticket, cancel in list(client.open.items()):
            if ticket.id == asked.requestId and type(ticket.id) is type(asked.requestId):
                cancel()

    def _take_answer(self, client: Connection, response: jsonrpc.Response) -> None:
        asked = client.take_asked(response.id)
        if asked is None:
            return
        session_id, key = asked
        live = self._registry.live.get(session_id)
        if live is not None:
            live.answered(client, key, response.result, response.error)
