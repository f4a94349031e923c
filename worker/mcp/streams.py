"""Between the SDK's session and a transport: messages of a process, and a watch on what comes of any.

Imports the SDK: to be imported in a thread.
"""

from __future__ import annotations

import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from worker.mcp.bounds import bounded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import ReadStream, TransportStreams

    from worker.mcp.bounds import MessageLines
    from worker.mcp.stdio import ServerProcess

log = logging.getLogger(__name__)

_HEEDED: Final = frozenset(
    {
        "notifications/cancelled",
        "notifications/progress",
        "notifications/prompts/list_changed",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    }
)
_UNSENT: Final = 64
"""Messages for a server that does not read. The SDK waits up to 5 s for room, in a cancelled call too."""


class Watched:
    """A transport's read stream: what comes of it is bounded, and its end is noticed."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], ended: anyio.Event) -> None:
        self._stream = stream
        self._ended = ended

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._stream.receive()
            message = item.message if isinstance(item, SessionMessage) else None
            if _is_idle(message):
                continue
            if isinstance(message, types.JSONRPCResponse):
                message.result = bounded(message.result)
            return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            self._ended.set()
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Watched:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@asynccontextmanager
async def stdio_streams(process: ServerProcess) -> AsyncIterator[TransportStreams]:
    """The streams of a process that has been started. It is stopped when they are left."""
    take, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, unsent = anyio.create_memory_object_stream[SessionMessage](_UNSENT)
    try:
        async with anyio.create_task_group() as tasks, take, messages, sent, unsent:
            tasks.start_soon(_read, process, take)
            tasks.start_soon(_write, process, unsent)
            tasks.start_soon(process.until_ended)
            yield messages, sent
            tasks.cancel_scope.cancel()
    finally:
        process.stop()


async def _read(process: ServerProcess, take: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    async with take:
        async for lines in process.lines:
            for line in lines:
                message = _parsed(process.cutter, line)
                if message is not None:
                    await take.send(SessionMessage(message))


def _parsed(cutter: MessageLines, line: bytes) -> types.JSONRPCMessage | None:
    """The message in a line, if it is one that matters. Raises Noise."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        mended = _mended(line)
        if mended is None:
            cutter.count(line)
            return None
        message = mended
    if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
        cutter.answered()
    else:
        cutter.count(line)
    return None if _is_idle(message) else message


def _mended(line: bytes) -> types.JSONRPCMessage | None:
    """A message with half a character in it (a lone surrogate, a cut UTF-8 sequence), which is replaced."""
    try:
        text = json.dumps(json.loads(line.decode(errors="replace")), ensure_ascii=False)
        return types.jsonrpc_message_adapter.validate_json(text.encode(errors="replace"), by_name=False)
    except (ValueError, RecursionError):
        return None


def _is_idle(message: types.JSONRPCMessage | None) -> bool:
    return isinstance(message, types.JSONRPCNotification) and message.method not in _HEEDED


async def _write(process: ServerProcess, unsent: MemoryObjectReceiveStream[SessionMessage]) -> None:
    try:
        async for item in unsent:
            message = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.write(message.encode() + b"\n")
    except OSError:
        # It does not read any more. What it has still to say is read, and its end is noticed there.
        log.info("an MCP server closed its stdin")
