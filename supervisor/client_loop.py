"""Reading one client: its bytes to messages, each handed to the front, until it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio.lowlevel

from shared import jsonrpc
from shared.errors import INVALID_REQUEST, RequestError
from supervisor.auth import auth_methods
from supervisor.effects import Ticket
from supervisor.handshake import initialize_result
from supervisor.stdio import read_chunk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from supervisor.connection import Connection
    from supervisor.front import Front

LAST_ANSWERS: Final = 0.5
"""Seconds for answers after the end of input: a script pipes requests in and reads what comes of them."""
NOT_INITIALIZED = "The first request must be initialize."


async def serve_client(
    client: Connection, fd: int, front: Callable[[], Awaitable[Front]], unread: bytes = b""
) -> None:
    """Serve `unread`, then what comes on `fd`; returns at its end, when what was asked last is answered.

    `front` is asked for when `initialize` has been answered and written, and may take its time then.
    """
    splitter = jsonrpc.LineSplitter()
    serving = await front() if client.initialized else None
    while chunk := unread or await read_chunk(fd):
        unread = b""
        for line in splitter.feed(chunk):
            message = line if isinstance(line, jsonrpc.Malformed) else jsonrpc.parse(line)
            if message is None:
                continue
            if isinstance(message, jsonrpc.Notification) and message.method == "_iac-code/dialect":
                client.bare = isinstance(message.params, dict) and message.params.get("dialect") == "acp"
            elif isinstance(message, jsonrpc.Request) and message.method == "initialize":
                _initialize(client, message)
            elif not client.initialized:
                _refuse(client, message)
            else:
                if serving is None:
                    await client.output.flushed()
                    serving = await front()
                serving.take(client, message)
                # A task started for it runs up to its first wait before the next line is taken.
                await anyio.lowlevel.checkpoint()
        if serving is None and client.initialized:
            await client.output.flushed()
            serving = await front()
    await client.settled(LAST_ANSWERS)


def _initialize(client: Connection, request: jsonrpc.Request) -> None:
    given = request.params if isinstance(request.params, dict) else {}
    capabilities = given.get("clientCapabilities")
    client.capabilities = capabilities if isinstance(capabilities, dict) else {}
    client.initialized = True
    ticket = Ticket(client.number, request.id)
    client.open[ticket] = lambda: None
    client.answer(ticket, initialize_result(auth_methods(client.capabilities)))


def _refuse(client: Connection, message: jsonrpc.Message) -> None:
    if isinstance(message, jsonrpc.Malformed):
        client.send(jsonrpc.error_line(message.id, message.error.to_json()))
    elif isinstance(message, jsonrpc.Request):
        client.send(jsonrpc.error_line(message.id, RequestError(INVALID_REQUEST, NOT_INITIALIZED).to_json()))
