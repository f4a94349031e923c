"""A session's first turns, played to nobody: in the zygote, before it forks workers.

What Python writes as code first runs (specialized instructions, caches, types, compiled patterns) is written
once, in pages that workers share, and none of them waits for it. Measured: 2 MB less in each worker,
and a killed one's turn goes on 15 ms sooner. The third turn still gains a little, a fourth nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import zmq
from anyio.abc import SocketAttribute
from pydantic_core import to_json

from shared import faults, frames
from shared.catalog import default_model
from shared.channel import UnreliableChannel, bind_router, connect_dealer
from shared.meta import HISTORY
from shared.paths import config_dir
from worker.publisher import Publisher
from worker.requests import ClientRequests
from worker.scratch import Scratch
from worker.session import WorkerSession
from worker.tools.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import SocketStream

log = logging.getLogger(__name__)

TURNS: Final = 3
_WITHIN: Final = 3.0
"""Seconds; a tenth of one is usual, once the SDK is imported."""
_FILE: Final = "read.txt"
_RESPONSE: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def rehearse() -> None:
    """Play the turns. Leaves no thread, no file, and the environment as it was.

    In an environment of its own: the user's settings would start hooks and servers, and the user's proxy
    is not for this. What fails is logged; workers then do for themselves what was to be done here.
    """
    if faults.WANTED:
        return  # they are meant for workers, and some count
    outside = dict(os.environ)
    scratch = Scratch(Path(f"rehearsal of {os.getpid()}"))
    try:
        scratch.make()
        (scratch.path / _FILE).write_text("one line\n")
        session_dirs = [scratch.path / f"session-{turn}" for turn in range(TURNS)]
        for session_dir in session_dirs:
            session_dir.mkdir()
            (session_dir / HISTORY).touch()
        anyio.run(_play, scratch.path, session_dirs)
    except (Exception, BaseExceptionGroup):
        log.warning("workers start unrehearsed", exc_info=True)
    finally:
        os.environ.clear()
        os.environ.update(outside)
        scratch.remove()
        for thread in threading.enumerate():  # the loop has told them to end
            if thread is not threading.current_thread():
                thread.join()


async def _play(cwd: Path, session_dirs: Sequence[Path]) -> None:
    with anyio.fail_after(_WITHIN):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as model,
            anyio.create_task_group() as tasks,
        ):
            os.environ.clear()
            os.environ |= {
                "PATH": os.defpath,
                "HOME": str(cwd),
                "IAC_CODE_CONFIG_DIR": str(cwd / "config"),
                "ANTHROPIC_API_KEY": "none",
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.extra(SocketAttribute.local_port)}",
            }
            tasks.start_soon(model.serve, _answer)
            for session_dir in session_dirs:
                await _link()
                await _session(cwd, session_dir)
            tasks.cancel_scope.cancel()


async def _link() -> None:
    """What a worker and its front say first. Its context, which has threads, ends with it."""
    context = zmq.Context[zmq.Socket[bytes]](io_threads=1)
    endpoint, identity = "inproc://link", b"\1" * 16
    front = bind_router(context, endpoint)
    worker = connect_dealer(context, endpoint, identity)
    try:
        worker.send([frames.Hello(pid=os.getpid()).encode()])
        await front.receive()
        front.send([identity, frames.Ping(n=1).encode()])
        for parts in await worker.receive():
            frames.TO_WORKER.validate_json(parts[0])
        worker.send([frames.Ack(n=1).encode()])
        await front.receive()
    finally:
        worker.close()
        front.close()
        context.term()


async def _session(cwd: Path, session_dir: Path) -> None:
    """A session of one turn, from the frames that a front sends."""
    spec = frames.WorkerSpec(
        session_id=session_dir.name,
        epoch=1,
        identity="",
        control="",
        data="",
        session_dir=str(session_dir),
        cwd=str(cwd),
        log=os.devnull,
        lifeline_fd=-1,
        lock_fd=-1,
    )
    options = {"mode": "default", "model": default_model(os.environ, config_dir()), "thinking": "off"}
    opened = frames.DATA_TO_WORKER.validate_json(frames.Open(options=options).encode())
    asked = [{"type": "text", "text": "Read it."}]
    prompt = frames.DATA_TO_WORKER.validate_json(frames.Prompt(turn_id="turn", blocks=asked).encode())
    assert isinstance(opened, frames.Open)
    assert isinstance(prompt, frames.Prompt)
    publisher = Publisher(_ToNobody(), spec.session_id, spec.dialect)
    async with Processes() as processes:
        session = WorkerSession(spec, publisher, ClientRequests(publisher), processes)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(publisher.flush_frames)
                tasks.start_soon(session.open, opened)
                await session.prompt(prompt)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await session.close()


class _ToNobody(UnreliableChannel):
    def __init__(self) -> None:
        """Without a socket: nobody would read what is sent."""

    def send(self, parts: Sequence[bytes]) -> None:
        """As if it had been sent."""
        header = frames.Header.decode(parts[0])
        if header.kind == "answer" and header.status == "error":
            raise RuntimeError(f"the turn failed: {parts[1].decode()}")


async def _answer(client: SocketStream) -> None:
    """The Messages API: to a connection's first request a call of `read_file`, to its second the end."""
    call = {"type": "tool_use", "id": "call", "name": "read_file", "input": {}}
    replies = (
        _reply(call, {"type": "input_json_delta", "partial_json": f'{{"path": "{_FILE}"}}'}),
        _reply({"type": "text", "text": ""}, {"type": "text_delta", "text": "Read."}),
    )
    async with client:
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            for reply in replies:
                await _read_request(client)
                await client.send(_RESPONSE + reply)


async def _read_request(client: SocketStream) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += await client.receive()
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < int(length.partition(b":")[2]):
        body += await client.receive()


def _reply(block: dict[str, Any], delta: dict[str, Any]) -> bytes:
    """A stream of server-sent events, as one chunk and the last."""
    events: tuple[dict[str, Any], ...] = (
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    )
    body = b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), to_json(event)) for event in events)
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
