"""`python -m ops.benchmarks.peers.service LOG`: the double with its other faces, on one port of loopback.

The port is printed as the first line. LOG takes a line for each request: its path and the answer's status.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ops.benchmarks.peers import faces
from tests.double.replies import Pause
from tests.double.server import Double, Received

if TYPE_CHECKING:
    from collections.abc import Iterator


class Service(Double):
    """The double, which hands what is not the Messages API to the face that knows it."""

    def __init__(self, paths: TextIO) -> None:
        super().__init__()
        self._paths = paths

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> bool:
        """As the double's own."""
        path = request.path.partition("?")[0]
        body = request.body if isinstance(request.body, dict) else {}
        goes_on = True
        if path.endswith("/chat/completions") and body.get("stream"):
            await _stream(faces.chat_events(body), writer)
        elif path.endswith("/chat/completions"):
            await _json(faces.whole_chat(body), writer)
        elif path.endswith(":streamGenerateContent"):
            await _stream(faces.gemini_events(body), writer)
        elif path.endswith(":generateContent"):
            await _json(faces.whole_gemini(body), writer)
        elif path.endswith(":countTokens"):
            await _json({"totalTokens": 10}, writer)
        elif path.endswith("/models"):
            await _json({"object": "list", "data": [{"id": "double", "object": "model"}]}, writer)
        else:
            goes_on = await super().answer(request, writer)
        self._paths.write(f"{path} {request.status} {request.error or ''}\n")
        self._paths.flush()
        # What came is kept by tests only; here it would grow with every history that is sent.
        self.requests.clear()
        return goes_on


async def _stream(events: Iterator[bytes | Pause], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for event in events:
        if isinstance(event, Pause):
            await writer.drain()
            await asyncio.sleep(event.seconds)
        else:
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _json(answer: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    data = json.dumps(answer).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()


async def _main(log: Path) -> None:
    with log.open("a", encoding="utf-8") as paths:
        service = Service(paths)
        server = await service.start()
        print(service.port, flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
