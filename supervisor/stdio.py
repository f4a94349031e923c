"""Standard input and output as a client's connection: non-blocking, in bounded memory, nothing else on it.

At the very start `take_stdout` moves the real standard output away and points descriptor 1 at the log,
so that no stray print, of a child either, can get between two protocol lines.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

CHUNK: Final = 256 * 1024
STUCK: Final = 10.0
"""Seconds that a client may take nothing while much waits for it."""


def take_stdout(log_fd: int) -> int:
    """A private descriptor of standard output; descriptor 1 is the log from now on."""
    private = os.dup(1)
    os.dup2(log_fd, 1)
    return private


async def read_chunk(fd: int) -> bytes:
    """What there is to read, waiting for at least one octet; empty at the end of file.

    Also empty where nothing can be read any more: a reset, a terminal that hung up, a closed descriptor.
    """
    while True:
        try:
            await anyio.wait_readable(fd)
        except OSError:
            # A regular file or /dev/null cannot be waited for; it never blocks for long either.
            return await to_thread.run_sync(_read, fd, abandon_on_cancel=True)
        try:
            return _read(fd)
        except BlockingIOError:
            continue


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        raise
    except OSError:
        return b""


class OutputBuffer:
    """Lines on their way to one client, whole and in order.

    What it holds is bounded by its users: each worker has a window of credit, which `written` gives back
    when the client has taken the octets.
    """

    def __init__(self, fd: int, high_water: int | None = None) -> None:
        """Past `high_water`, or a sixteenth of it with nothing taken for STUCK seconds, the client is cut."""
        self._fd = fd
        self._high_water = high_water
        self._took = time.monotonic()
        self._queue: deque[tuple[memoryview, Callable[[], None] | None]] = deque()
        self._filled = anyio.Event()
        self._emptied = anyio.Event()
        self.size = 0
        self.broken = False
        self._ended = anyio.CancelScope()

    def put(self, line: bytes, written: Callable[[], None] | None = None) -> None:
        """Queue a whole line. After the client is gone it is dropped, and `written` called at once."""
        if self.broken:
            if written is not None:
                written()
            return
        if not self._queue:
            self._took = time.monotonic()
        self._queue.append((memoryview(line), written))
        self.size += len(line)
        self._filled.set()
        if self._high_water is not None and self._is_stuck(self._high_water):
            log.warning("a client does not read: %d octets wait for it; its connection ends", self.size)
            self.end()

    def _is_stuck(self, high_water: int) -> bool:
        waited = time.monotonic() - self._took
        return self.size > high_water or (self.size > high_water // 16 and waited > STUCK)

    def end(self) -> None:
        """Nothing is written any more; what waits is dropped, and `drain` returns."""
        self._break()
        self._ended.cancel()

    async def drain(self) -> None:
        """Write until the client is gone; returns then."""
        with self._ended:
            await self._drain()

    async def _drain(self) -> None:
        while True:
            await self._filled.wait()
            self._filled = anyio.Event()
            while self._queue:
                try:
                    self._write_some()
                except BlockingIOError:
                    await anyio.wait_writable(self._fd)
                except OSError:
                    self._break()
                    return
                # One batch a turn of the loop, so that other tasks run while much is written.
                await anyio.lowlevel.checkpoint()
            self._emptied.set()

    async def flushed(self) -> None:
        """Returns when all that was put is written, or the client is gone."""
        while self._queue and not self.broken:
            if self._emptied.is_set():
                self._emptied = anyio.Event()
            await self._emptied.wait()

    def _write_some(self) -> None:
        batch: list[memoryview] = []
        size = 0
        for view, _ in self._queue:
            batch.append(view)
            size += len(view)
            if size >= CHUNK or len(batch) == 256:
                break
        done = os.writev(self._fd, batch)
        self._took = time.monotonic()
        self.size -= done
        while done or (self._queue and not self._queue[0][0]):
            view, written = self._queue[0]
            if done < len(view):
                self._queue[0] = (view[done:], written)
                return
            self._queue.popleft()
            done -= len(view)
            if written is not None:
                written()

    def _break(self) -> None:
        self.broken = True
        self.size = 0
        while self._queue:
            _, written = self._queue.popleft()
            if written is not None:
                written()
        self._emptied.set()
