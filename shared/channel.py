"""A ZeroMQ socket on the event loop, read in batches by one task.

`zmq.asyncio` costs 29 µs a message; draining until EAGAIN and then waiting on the socket's descriptor
costs 5 to 9, on any anyio backend. The descriptor is edge-triggered: whatever touches the socket may
take the edge, so readiness is looked up again after each send and before each wait, or the reader
sleeps on a full queue (about once in 400 rounds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import zmq

if TYPE_CHECKING:
    from collections.abc import Sequence

_BATCH = 256
"""Messages of one batch at the most, so that a flooding peer cannot keep the loop from its other tasks."""


class PeerGone(Exception):
    """No route to the peer: it is not connected, or no more."""


class UnreliableChannel:
    """Messages of several parts. A peer that is killed takes with it what was queued, unread or unsent.

    Of a burst of 200 a median of 4 arrived: what matters must be durable before it is sent.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._fd = int(socket.getsockopt(zmq.FD))
        self._waiting: anyio.CancelScope | None = None

    async def receive(self) -> list[list[bytes]]:
        """At least one message, and all others that are there, up to a batch. One task may call this."""
        # With messages always there nothing below waits, and a flood would keep the loop to itself.
        await anyio.lowlevel.checkpoint()
        while True:
            messages: list[list[bytes]] = []
            try:
                while len(messages) < _BATCH:
                    messages.append(self._socket.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                pass
            if messages:
                return messages
            if self._readable():
                continue
            with anyio.CancelScope() as self._waiting:
                await anyio.wait_readable(self._fd)
            self._waiting = None

    def send(self, parts: Sequence[bytes]) -> None:
        """Queue a message; never blocks (the high-water mark is off, credit bounds what is queued).

        Raises PeerGone if a ROUTER knows no such peer.
        """
        try:
            self._socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again as e:  # EHOSTUNREACH is told apart below; EAGAIN: the peer's pipe is gone
            raise PeerGone from e
        except zmq.ZMQError as e:
            if e.errno == zmq.EHOSTUNREACH:
                raise PeerGone from e
            raise
        if self._waiting is not None and self._readable():
            self._waiting.cancel()

    def _readable(self) -> bool:
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def close(self) -> None:
        """Close at once; what is unsent is dropped."""
        self._socket.close(linger=0)

    def close_after(self, seconds: float) -> None:
        """Close; what is unsent may still leave while the context ends, for `seconds` at the most."""
        self._socket.close(linger=int(seconds * 1000))


def bind_router(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> UnreliableChannel:
    """A ROUTER that refuses to send to nobody, and keeps a routing id with the peer that has it.

    Without MANDATORY 3,000 sends delivered 115 with no error; with HANDOVER a stranger that connects
    under a known id would take the worker's place.
    """
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    _unbounded(socket)
    socket.bind(endpoint)
    return UnreliableChannel(socket)


def connect_dealer(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, identity: bytes
) -> UnreliableChannel:
    """A DEALER that is known to the router as `identity` (16 octets, the first not zero)."""
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.ROUTING_ID, identity)
    _unbounded(socket)
    socket.connect(endpoint)
    return UnreliableChannel(socket)


def _unbounded(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)
