"""The front's end of the link: two ROUTERs in the runtime folder, and who is who on them.

A worker is known by the random identity of its epoch. What comes under an identity that is not
registered (a dead epoch's last words, a stranger) is dropped and counted in the log.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

import zmq
from pydantic import ValidationError

from shared.channel import PeerGone, bind_router
from shared.frames import TO_FRONT, Ack, Header, Hello, Ready

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.frames import DataToWorker, ToWorker

log = logging.getLogger(__name__)


class LinkPeer(Protocol):
    """What the link tells about one worker."""

    def on_hello(self, pid: int) -> None:
        """The worker has connected both channels and its loop runs."""

    def on_ack(self, ack: Ack) -> None:
        """The worker's loop answered a ping."""

    def on_frame(self, header: Header, payload: bytes) -> None:
        """A data frame, in order."""


@contextlib.contextmanager
def _contained() -> Iterator[None]:
    """A payload that a broken worker made up must not end the front, nor cost the frames after it."""
    try:
        yield
    except Exception:
        log.exception("a frame could not be handled and was dropped")


class FrontLink:
    """Binds on construction. `endpoint_*` are handed to workers."""

    def __init__(self, folder: Path) -> None:
        self.control_endpoint = f"ipc://{folder / 'control'}"
        self.data_endpoint = f"ipc://{folder / 'data'}"
        self._context = zmq.Context[zmq.Socket[bytes]](io_threads=1)
        self._control = bind_router(self._context, self.control_endpoint)
        self._data = bind_router(self._context, self.data_endpoint)
        self._peers: dict[bytes, LinkPeer] = {}
        self._met: dict[bytes, set[str]] = {}
        self._strangers = 0

    def register(self, identity: bytes, peer: LinkPeer) -> None:
        """Listen to an epoch from now on."""
        self._peers[identity] = peer
        self._met[identity] = set()

    def drop(self, identity: bytes) -> None:
        """Hear this epoch no more."""
        self._peers.pop(identity, None)
        self._met.pop(identity, None)

    def send_control(self, identity: bytes, frame: ToWorker) -> None:
        """To a worker that has said hello; a worker that is gone misses it, its exit is told elsewhere."""
        try:
            self._control.send([identity, frame.encode()])
        except PeerGone:
            log.info("a control frame (%s) found its worker gone", frame.kind)

    def send_data(self, identity: bytes, frame: DataToWorker) -> None:
        """As `send_control`. What is lost with a worker is sent again to its next epoch."""
        try:
            self._data.send([identity, frame.encode()])
        except PeerGone:
            log.info("a data frame (%s) found its worker gone", frame.kind)

    async def receive_control(self) -> None:
        """Hand on control frames; runs as long as the front."""
        while True:
            for parts in await self._control.receive():
                peer = self._peers.get(parts[0])
                if peer is None or len(parts) != 2:
                    self._drop_stranger()
                    continue
                try:
                    frame = TO_FRONT.validate_json(parts[1])
                except ValidationError:
                    log.warning("a control frame could not be read and was dropped")
                    continue
                with _contained():
                    match frame:
                        case Ack():
                            peer.on_ack(frame)
                        case Ready():
                            self._meet(parts[0], peer, "control", 0)
                        case Hello():
                            pass

    async def receive_data(self) -> None:
        """Hand on data frames; runs as long as the front."""
        while True:
            for parts in await self._data.receive():
                peer = self._peers.get(parts[0])
                if peer is None or len(parts) != 3:
                    self._drop_stranger()
                    continue
                try:
                    header = Header.decode(parts[1])
                except ValueError:
                    log.warning("a data frame could not be read and was dropped")
                    continue
                with _contained():
                    if header.kind == "hello":
                        self._meet(parts[0], peer, "data", int(header.key))
                    else:
                        peer.on_frame(header, parts[2])

    def _meet(self, identity: bytes, peer: LinkPeer, channel: str, pid: int) -> None:
        met = self._met[identity]
        met.add(channel)
        if met == {"control", "data"}:
            peer.on_hello(pid)

    def _drop_stranger(self) -> None:
        self._strangers += 1
        if self._strangers & (self._strangers - 1) == 0:  # 1, 2, 4, 8 …: a flood must not fill the log
            log.info("%d frames of ended epochs or strangers were dropped so far", self._strangers)

    def close(self) -> None:
        """Close the sockets at once."""
        self._control.close()
        self._data.close()
        self._context.term()
