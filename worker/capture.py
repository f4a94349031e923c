"""The output of one command: bounded in memory, whole in the session's `spill/` when it is long.

A full disk costs the spill file, never the command: what could not be kept is said in the text.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Final

import anyio

from worker.off_loop import off_loop
from worker.output import Cleaner, HeadTail

if TYPE_CHECKING:
    from pathlib import Path

HEAD: Final = 10_000
TAIL: Final = 20_000
"""Characters that the model gets of a long output."""
SPILL_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a spill file."""

_INLINE: Final = 16 * 1024
"""Bytes that are worked on in the loop; a change to a thread and back costs about as much."""
_BUFFER: Final = 256 * 1024
_LATE: Final = 4 * TAIL


def spill_path(session_dir: Path, call_id: str) -> Path:
    """Where a call's long output goes. Ids come from outside, so they are not trusted as names."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", call_id):
        call_id = hashlib.blake2b(call_id.encode("utf-8", "replace"), digest_size=12).hexdigest()
    return session_dir / "spill" / f"{call_id}.txt"


class Capture:
    """Takes output as it comes. `changed` is set whenever `text()` has become another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changed = anyio.Event()
        self._cleaner = Cleaner()
        self._kept = HeadTail(HEAD, TAIL)
        self._all: list[str] | None = []
        """The whole text, while it is short."""
        self._length = 0
        self._unwritten = bytearray()
        self._fd: int | None = None
        self._spilled = 0
        self._late: bytearray | None = None
        """Once the spill file is full only the end matters: the last bytes, not worked on."""
        self._skipped = 0
        self._error = ""
        # What is fed, and what a look at a background task brings to the disk meanwhile.
        self._turn = anyio.Lock(fast_acquire=True)

    async def feed(self, data: bytes) -> None:
        """Take a piece. Short ones are worked on at once, others in a thread."""
        async with self._turn:
            if self._late is not None:
                self._add_late(data)
            elif len(data) > _INLINE or len(self._unwritten) > _BUFFER:
                await off_loop(self._work, data)
            else:
                self._add(self._cleaner.feed(data))
        self.changed.set()

    async def flush(self) -> None:
        """Bring the spill file up to now."""
        async with self._turn:
            if self._unwritten:
                await off_loop(self._write)

    async def finish(self) -> None:
        """Take the rest and close the spill file."""
        async with self._turn:
            self._add(self._cleaner.finish())
            if self._unwritten:
                await off_loop(self._write)
            if self._fd is not None:
                fd, self._fd = self._fd, None
                await off_loop(os.close, fd)

    def text(self) -> str:
        """The output so far, bounded, with a marker that says what is missing and where it is."""
        if self._all is not None:
            return "".join(self._all) + self._cleaner.pending.rstrip("\r")
        if self._error:
            where = f"; the whole output could not be kept: {self._error}"
        elif self._late is not None:
            where = f"; the first {SPILL_LIMIT // 2**20} MiB are in {self.path}"
        else:
            where = f"; the whole output is in {self.path}"
        if self._late is None:
            return self._kept.text(where, self._cleaner.pending.rstrip("\r"))
        cleaner = Cleaner()
        return self._kept.text(where, cleaner.feed(self._late) + cleaner.finish(), self._skipped)

    def _work(self, data: bytes) -> None:
        self._add(self._cleaner.feed(data))
        self._write()

    def _add(self, text: str) -> None:
        if not text:
            return
        self._kept.add(text)
        if self._all is not None:
            self._all.append(text)
            self._length += len(text)
            if self._length <= HEAD + TAIL:
                return
            text, self._all = "".join(self._all), None
        if self._late is None and not self._error:
            self._unwritten += text.encode()

    def _add_late(self, data: bytes) -> None:
        assert self._late is not None
        self._late += data
        if len(self._late) > 2 * _LATE:
            self._skipped += len(self._late) - _LATE
            del self._late[:-_LATE]

    def _write(self) -> None:
        """Blocks; only ever one at a time."""
        data, self._unwritten = self._unwritten, bytearray()
        if not data or self._error or self._late is not None:
            return
        if self._spilled + len(data) > SPILL_LIMIT:
            data = data[: SPILL_LIMIT - self._spilled]
            self._add(self._cleaner.finish())
            self._late = bytearray()
        try:
            if self._fd is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(self.path, flags, 0o600)
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as e:
            self._error = e.strerror or str(e)
        self._spilled += len(data)
