"""The link's sockets over a real `ipc://` path: nothing sleeps on a full queue, nobody speaks for another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
import zmq

from shared.channel import PeerGone, UnreliableChannel, bind_router, connect_dealer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio
WORKER = b"\x01" + b"w" * 15
ROUNDS = 2_000


class Link:
    """A router and the dealers that connect to it."""

    def __init__(self, folder: Path) -> None:
        self.context = zmq.Context[zmq.Socket[bytes]](io_threads=1)
        self.endpoint = f"ipc://{folder}/s"
        self.router = bind_router(self.context, self.endpoint)
        self.dealers: list[UnreliableChannel] = []

    def dealer(self, identity: bytes = WORKER) -> UnreliableChannel:
        dealer = connect_dealer(self.context, self.endpoint, identity)
        self.dealers.append(dealer)
        return dealer

    async def met(self, identity: bytes = WORKER) -> UnreliableChannel:
        """A dealer that the router knows."""
        dealer = self.dealer(identity)
        dealer.send([b"hello"])
        assert await receive(self.router, 1) == [[identity, b"hello"]]
        return dealer


@pytest.fixture
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Link]:
    # A path of a socket may have 107 octets.
    link = Link(tmp_path_factory.mktemp("c"))
    yield link
    for channel in (link.router, *link.dealers):
        channel.close()
    link.context.term()


async def receive(channel: UnreliableChannel, number: int) -> list[list[bytes]]:
    """That many messages."""
    found: list[list[bytes]] = []
    with anyio.fail_after(20):
        while len(found) < number:
            batch = await channel.receive()
            assert batch
            found += batch
    return found


async def test_messages_come_whole_and_in_order_both_ways(link: Link) -> None:
    dealer = await link.met()
    sent = [[str(number).encode(), bytes(number % 700)] for number in range(3_000)]
    for parts in sent:
        dealer.send(parts)
        link.router.send([WORKER, *parts])
    assert await receive(link.router, len(sent)) == [[WORKER, *parts] for parts in sent]
    assert await receive(dealer, len(sent)) == sent


async def test_a_reader_never_sleeps_on_a_full_queue_while_its_socket_also_sends(link: Link) -> None:
    """The descriptor is edge-triggered: a send takes the edge that told of a message."""
    dealer = await link.met()
    got, enough = {"router": 0, "dealer": 0}, anyio.Event()

    async def play(name: str, channel: UnreliableChannel, head: list[bytes]) -> None:
        while True:
            for parts in await channel.receive():
                got[name] += 1
                channel.send([*head, parts[-1]])
                if min(got.values()) >= ROUNDS:
                    enough.set()
                if got[name] % 3 == 0:
                    await anyio.lowlevel.checkpoint()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(play, "router", link.router, [WORKER])
            group.start_soon(play, "dealer", dealer, [])
            for number in range(7):
                dealer.send([str(number).encode()])
                link.router.send([WORKER, str(number).encode()])
            await enough.wait()
            group.cancel_scope.cancel()


async def test_a_send_that_takes_the_edge_of_what_has_come_wakes_the_reader(link: Link) -> None:
    dealer = await link.met()
    for _ in range(10):
        async with anyio.create_task_group() as group:
            group.start_soon(receive, link.router, 1)
            await anyio.wait_all_tasks_blocked()
            dealer.send([b"x"])
            time.sleep(0.02)  # noqa: ASYNC251 - the loop must not look before ZeroMQ's thread has delivered
            link.router.send([WORKER, b"y"])


async def test_a_send_while_another_task_waits_to_read_does_not_lose_what_came(link: Link) -> None:
    dealer = await link.met()
    for number in range(400):
        async with anyio.create_task_group() as group:
            group.start_soon(receive, link.router, 1)
            await anyio.lowlevel.checkpoint()
            dealer.send([str(number).encode()])
            link.router.send([WORKER, b"x"])
    assert len(await receive(dealer, 400)) == 400


async def test_a_flood_leaves_the_loop_to_other_tasks(link: Link) -> None:
    dealer = await link.met()
    ticks, flooded = 0, 20_000

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    for _ in range(flooded):
        dealer.send([b"x"])
    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await receive(link.router, flooded)
        group.cancel_scope.cancel()
    assert ticks > flooded / 256


async def test_a_receive_that_is_cancelled_loses_nothing(link: Link) -> None:
    dealer = await link.met()
    for _ in range(50):
        with anyio.move_on_after(0):
            await link.router.receive()
        with anyio.move_on_after(0.001):
            await link.router.receive()
        dealer.send([b"x"])
        assert await receive(link.router, 1) == [[WORKER, b"x"]]


async def test_a_frame_for_nobody_is_told(link: Link) -> None:
    with pytest.raises(PeerGone):
        link.router.send([b"\x01" * 16, b"x"])


async def test_a_frame_for_a_peer_that_left_is_told(link: Link) -> None:
    dealer = await link.met()
    dealer.close()
    with anyio.fail_after(20):
        while True:
            try:
                link.router.send([WORKER, b"x"])
            except PeerGone:
                break
            await anyio.sleep(0.001)


async def test_a_stranger_under_a_known_identity_does_not_take_its_place(link: Link) -> None:
    dealer = await link.met()
    stranger = link.dealer()
    stranger.send([b"I am it"])
    other = await link.met(b"\x01" + b"o" * 15)
    link.router.send([WORKER, b"secret"])
    assert await receive(dealer, 1) == [[b"secret"]]
    other.send([b"last"])
    assert await receive(link.router, 1) == [[b"\x01" + b"o" * 15, b"last"]], "a stranger was heard"


async def test_what_is_queued_when_a_channel_is_closed_may_still_leave(link: Link) -> None:
    dealer = await link.met()
    for number in range(200):
        dealer.send([str(number).encode()])
    dealer.close_after(5)
    assert [parts[1] for parts in await receive(link.router, 200)] == [
        str(number).encode() for number in range(200)
    ]
