"""Standard input as pipes, files, terminals and sockets: it never blocks the loop, and always has an end."""

from __future__ import annotations

import os
import pty
import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from supervisor.stdio import read_chunk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.anyio
async def test_what_is_there_is_read_at_once_and_the_end_is_empty(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"abc")
    assert await read_chunk(pipe[0]) == b"abc"
    os.close(pipe[1])
    assert await read_chunk(pipe[0]) == b""


@pytest.mark.anyio
async def test_reading_waits_without_blocking_the_loop(pipe: tuple[int, int]) -> None:
    async with anyio.create_task_group() as group:

        async def write() -> None:
            await anyio.wait_all_tasks_blocked()
            os.write(pipe[1], b"late")

        group.start_soon(write)
        with anyio.fail_after(10):
            assert await read_chunk(pipe[0]) == b"late"


@pytest.mark.anyio
async def test_a_file_and_dev_null_can_be_standard_input(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"from a file")
    fd = os.open(tmp_path / "in", os.O_RDONLY)
    assert await read_chunk(fd) == b"from a file"
    assert await read_chunk(fd) == b""
    os.close(fd)
    null = os.open(os.devnull, os.O_RDONLY)
    assert await read_chunk(null) == b""
    os.close(null)


@pytest.mark.anyio
async def test_a_terminal_that_hung_up_is_the_end() -> None:
    controller, terminal = pty.openpty()
    os.close(controller)
    assert await read_chunk(terminal) == b""
    os.close(terminal)


@pytest.mark.anyio
async def test_a_descriptor_that_is_not_open_is_the_end(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    assert await read_chunk(pipe[0]) == b""


@pytest.mark.anyio
async def test_a_connection_that_was_reset_is_the_end() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    served, _ = listener.accept()
    with listener, served:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        assert await read_chunk(served.fileno()) == b""
