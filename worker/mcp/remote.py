"""Servers behind a URL: the SDK's Streamable HTTP and SSE transports, with bounded answers.

Imports the SDK: to be imported in a thread.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpx2
from anyio import to_thread
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from worker.mcp.bounds import LARGEST_MESSAGE
from worker.mcp.failures import ServerFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.client._transport import TransportStreams

    from shared.mcp_servers import RemoteServer

_CONNECT: Final = 30.0
"""Seconds. Reading has no limit of its own: calls have theirs, and the stream of notifications has none."""
_METADATA: Final = re.compile(r'resource_metadata="?(https?://[^"\s,]{1,300})')


_LOGIN: Final = """\
wants a login (HTTP 401). iac-code does no browser login (OAuth) for MCP servers: get an access token from \
its provider and give it as a header, `"headers": {"Authorization": "Bearer …"}`, where the server is \
configured (the editor's settings, or settings.json of iac-code)."""


class TooLong(httpx2.StreamError):
    """An answer is longer than a message may be."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > LARGEST_MESSAGE:
                raise TooLong(f"the answer is longer than {LARGEST_MESSAGE >> 20} MiB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _look_at(response: httpx2.Response) -> None:
    """Bound the answer; tell what a server that wants a login needs."""
    if response.status_code == 401:
        asked = _METADATA.search(response.headers.get("www-authenticate", ""))
        where = f" Its login is described at {asked[1]}." if asked else ""
        raise ServerFailure(_LOGIN + where, lasting=True)
    streams = response.headers.get("content-type", "").startswith("text/event-stream")
    # A stream of events may go on for days; the SDK bounds each event of it.
    if not streams and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream)


def _client(headers: dict[str, str]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(_CONNECT, read=None),
        event_hooks={"response": [_look_at]},
    )


@asynccontextmanager
async def remote_streams(server: RemoteServer) -> AsyncIterator[TransportStreams]:
    """The transport's two streams."""
    # In a thread, since it reads the certificates.
    client = await to_thread.run_sync(_client, server.headers)

    def made(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return client

    if server.type == "sse":
        async with sse_client(server.url, httpx_client_factory=made) as streams:
            yield streams
    else:
        async with (
            client,
            # Its DELETE at the end would hold up the session's end for as long as the server likes.
            streamable_http_client(
                server.url, http_client=client, terminate_on_close=False, max_sse_event_size=LARGEST_MESSAGE
            ) as streams,
        ):
            yield streams
