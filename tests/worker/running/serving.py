"""A web server on loopback whose responses are written byte by byte by the test."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.streams.tls import TLSListener

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anyio.abc import ByteStream

    Answer = bytes | Callable[[ByteStream], Awaitable[None]]


class Site:
    """Answers by path. `seen` holds each request's head."""

    def __init__(self) -> None:
        self.routes: dict[str, Answer] = {}
        self.seen: list[str] = []
        self.port = 0

    async def serve_one(self, stream: ByteStream) -> None:
        """One request, then the connection ends."""
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                try:
                    head += await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return
            self.seen.append(head.decode())
            answer = self.routes.get(
                head.split()[1].decode().partition("?")[0], response(b"no", status="404 Not Found")
            )
            try:
                if isinstance(answer, bytes):
                    await stream.send(answer)
                else:
                    await answer(stream)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                # The client has had enough.
                return


def response(body: bytes, kind: str = "text/plain", *, status: str = "200 OK", more: str = "") -> bytes:
    """A whole response; `more` holds further header lines, each ended by CR LF."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """A response that leads elsewhere."""
    return response(b"", status=status, more=f"Location: {location}\r\n")


@asynccontextmanager
async def serving(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """A site that answers on a free port."""
    site = Site()
    listener = await anyio.create_tcp_listener(local_host=host)
    site.port = listener.extra(anyio.abc.SocketAttribute.local_port)
    listening = TLSListener(listener, tls, standard_compatible=False) if tls else listener
    async with listening, anyio.create_task_group() as group:
        group.start_soon(listening.serve, site.serve_one)
        yield site
        group.cancel_scope.cancel()
