"""Standard output as real pipes, sockets and files: nothing blocks, nothing is lost or mixed."""

from __future__ import annotations

import functools
import os
import pty
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import to_thread

from supervisor.nonblocking import open_nonblocking
from supervisor.stdio import CHUNK, OutputBuffer

if TYPE_CHECKING:
    from pathlib import Path

LINES = 3_000


def read_all(fd: int, amount: int) -> bytes:
    """Blocking; for a thread."""
    found = bytearray()
    while len(found) < amount:
        chunk = os.read(fd, min(65_536, amount - len(found)))
        if not chunk:
            break
        found += chunk
    return bytes(found)


@pytest.mark.anyio
async def test_lines_come_whole_and_in_order_through_a_pipe_that_is_full(pipe: tuple[int, int]) -> None:
    read, write = pipe[0], open_nonblocking(pipe[1])
    lines = [f"{number} {'x' * (number % 900)}\n".encode() for number in range(LINES)]
    buffer, written = OutputBuffer(write), 0

    def count() -> None:
        nonlocal written
        written += 1

    async with anyio.create_task_group() as group:
        group.start_soon(buffer.drain)
        for line in lines:
            buffer.put(line, count)
        assert buffer.size == sum(map(len, lines))
        assert await to_thread.run_sync(read_all, read, buffer.size) == b"".join(lines)
        with anyio.fail_after(10):
            await buffer.flushed()
        assert (buffer.size, written) == (0, LINES)
        group.cancel_scope.cancel()
    os.close(write)


@pytest.mark.anyio
async def test_a_client_that_does_not_read_holds_up_nobody_and_written_is_told_only_when_it_has(
    pipe: tuple[int, int],
) -> None:
    read, write = pipe[0], open_nonblocking(pipe[1])
    buffer, written, first = OutputBuffer(write), list[int](), anyio.Event()

    def note(number: int) -> None:
        written.append(number)
        first.set()

    async with anyio.create_task_group() as group:
        group.start_soon(buffer.drain)
        for number in range(4):
            buffer.put(bytes([number]) * 200_000, functools.partial(note, number))
        with anyio.move_on_after(0.05):
            await buffer.flushed()
        assert written == [], "nobody has read"
        await to_thread.run_sync(read_all, read, 250_000)
        with anyio.fail_after(10):
            await first.wait()
        assert written == [0]
        await to_thread.run_sync(read_all, read, 550_000)
        with anyio.fail_after(10):
            await buffer.flushed()
        assert written == [0, 1, 2, 3]
        group.cancel_scope.cancel()
    os.close(write)


@pytest.mark.anyio
async def test_when_the_client_is_gone_everything_is_let_go(pipe: tuple[int, int]) -> None:
    read, write = pipe[0], open_nonblocking(pipe[1])
    buffer, written = OutputBuffer(write), []
    buffer.put(b"x" * 1_000_000, lambda: written.append(1))
    buffer.put(b"y", lambda: written.append(2))
    os.close(read)
    with anyio.fail_after(10):
        await buffer.drain()
        await buffer.flushed()
    assert (written, buffer.broken, buffer.size) == ([1, 2], True, 0)
    buffer.put(b"z", lambda: written.append(3))
    assert (written, buffer.size) == ([1, 2, 3], 0)
    os.close(write)


@pytest.mark.anyio
async def test_all_who_wait_for_the_flush_are_woken(pipe: tuple[int, int]) -> None:
    buffer = OutputBuffer(pipe[1])
    buffer.put(b"line\n")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as waiting:
            for _ in range(3):
                waiting.start_soon(buffer.flushed)
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as group:
                group.start_soon(buffer.drain)
                await buffer.flushed()
                group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_other_tasks_run_while_much_is_written(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT, 0o600)
    buffer, ticks = OutputBuffer(fd), 0
    for _ in range(40):
        buffer.put(b"x" * CHUNK)

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        group.start_soon(buffer.drain)
        await buffer.flushed()
        group.cancel_scope.cancel()
    assert ticks >= 40
    os.close(fd)


@pytest.mark.anyio
async def test_empty_lines_are_written_as_nothing(pipe: tuple[int, int]) -> None:
    buffer, written = OutputBuffer(pipe[1]), []
    buffer.put(b"", lambda: written.append("empty"))
    buffer.put(b"a\n", lambda: written.append("a"))
    buffer.put(b"", lambda: written.append("empty"))
    async with anyio.create_task_group() as group:
        group.start_soon(buffer.drain)
        with anyio.fail_after(10):
            await buffer.flushed()
        group.cancel_scope.cancel()
    assert written == ["empty", "a", "empty"]
    assert os.read(pipe[0], 10) == b"a\n"


@pytest.mark.anyio
async def test_a_client_for_whom_too_much_waits_is_cut_and_everything_let_go(pipe: tuple[int, int]) -> None:
    write = open_nonblocking(pipe[1])
    buffer, written = OutputBuffer(write, high_water=500_000), list[int]()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(buffer.drain)
            for number in range(10):
                buffer.put(b"x" * 100_000, functools.partial(written.append, number))
                await anyio.lowlevel.checkpoint()
    assert buffer.broken
    assert buffer.size == 0
    assert written == list(range(10))
    os.close(write)


@pytest.mark.anyio
async def test_a_client_that_reads_slowly_is_not_cut(pipe: tuple[int, int]) -> None:
    write = open_nonblocking(pipe[1])
    buffer = OutputBuffer(write, high_water=500_000)
    async with anyio.create_task_group() as group:
        group.start_soon(buffer.drain)
        for _ in range(30):
            buffer.put(b"x" * 100_000)
            await to_thread.run_sync(read_all, pipe[0], 100_000)
        assert not buffer.broken
        group.cancel_scope.cancel()
    os.close(write)


def test_a_pipe_is_made_non_blocking_for_us_alone(pipe: tuple[int, int]) -> None:
    shared = os.dup(pipe[1])
    own = open_nonblocking(pipe[1])
    assert os.get_blocking(shared)
    assert not os.get_blocking(own)
    os.close(own)
    os.close(shared)


def test_a_terminal_is_made_non_blocking_for_us_alone() -> None:
    controller, terminal = pty.openpty()
    shared = os.dup(terminal)
    own = open_nonblocking(terminal)
    assert os.get_blocking(shared)
    assert not os.get_blocking(own)
    for fd in (controller, shared, own):
        os.close(fd)


def test_a_socket_is_written_without_blocking_and_a_file_as_it_is(tmp_path: Path) -> None:
    left, right = socket.socketpair()
    with left, right:
        assert open_nonblocking(left.fileno()) == left.fileno()
        assert not os.get_blocking(left.fileno())
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT, 0o600)
    assert open_nonblocking(fd) == fd
    os.close(fd)


def test_a_pipe_whose_reader_is_gone_can_still_be_taken(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    own = open_nonblocking(pipe[1])
    assert not os.get_blocking(own)
    os.close(own)


def test_after_take_stdout_a_stray_print_is_in_the_log_and_not_on_standard_output(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\n"
        "from supervisor.stdio import take_stdout\n"
        "own = take_stdout(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT))\n"
        "print('stray', flush=True)\n"
        "subprocess.run(['echo', 'of a child'])\n"
        "os.write(own, b'protocol\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "log"], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"protocol\n", b"")
    assert (tmp_path / "log").read_bytes() == b"stray\nof a child\n"
