"""A session's `history.jsonl`: reading it whatever happened to it, and appending so that it is durable.

One record a line. Written by the session's worker alone; anyone may read. Blocking: call from a
thread. The lines themselves: `shared.lines`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Final

from shared.durable import read_file, replace_file, sync_folder, write_all
from shared.faults import fault_point
from shared.lines import Problem, encode, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from shared.records import Record

SET_ASIDE: Final = "history.bad.jsonl"

_sync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


def read(path: Path) -> tuple[list[Record], list[Problem], int]:
    """The records that can be read, what cannot, and the offset in bytes where the last whole line ends.

    No content raises. Raises OSError for a file that cannot be read; one that is missing is a problem.
    """
    fault_point("journal.read")
    try:
        data = read_file(path)
    except FileNotFoundError:
        return [], [Problem(0, f"{path} is missing: the conversation starts empty.", b"")], 0
    return parse(data)


class Journal:
    """The history of one session, held by the one process that writes it. Safe to call from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._end: int | None = None
        self._unkept: list[bytes] = []
        self._lock = threading.Lock()

    def load(self) -> tuple[list[Record], list[Problem]]:
        """All records, and what was set aside: that is copied, once, to `history.bad.jsonl`.

        Raises OSError when the file cannot be read.
        """
        with self._lock:
            records, problems, self._end = read(self._path)
            self._unkept = [problem.raw for problem in problems if problem.raw]
            # On a full or read-only disk a history still loads; `replace` insists on the copy.
            with contextlib.suppress(OSError):
                self._keep_bad_lines()
            return records, problems

    def append(self, records: Sequence[Record]) -> None:
        """Add records; on return they are durable, all of them.

        Raises OSError when the disk did not take them: then none is in the history, and a later
        append works again once the disk does.
        """
        data = b"".join(map(encode, records))
        if not data:
            return
        with self._lock:
            fd = self._opened()
            end = self._settled(fd)
            try:
                fault_point("journal.append")
                write_all(fd, data)
                fault_point("journal.written")
                _sync(fd)
                fault_point("journal.synced")
            except OSError:
                # Where even this fails, the next append begins with it.
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, end)
                raise
            self._end = end + len(data)

    def replace(self, records: Sequence[Record]) -> None:
        """Put these records in place of the whole file, at once; what was set aside is kept first.

        Raises OSError; then the old file is there.
        """
        data = b"".join(map(encode, records))
        with self._lock:
            self._keep_bad_lines()
            self._forget()
            replace_file(self._path, data)
            self._end = len(data)

    def close(self) -> None:
        """Release the file. A later append opens it again."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._end = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        if self._fd is None:
            # Not blocking, so that a FIFO in its place is an error of the first write and no wait.
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
            try:
                self._fd = os.open(self._path, flags)
            except FileNotFoundError:
                self._fd = os.open(self._path, flags | os.O_CREAT, 0o600)
                sync_folder(self._path.parent)
        return self._fd

    def _settled(self, fd: int) -> int:
        """Cut what a killed or failed append left behind; where the next one begins."""
        size = os.fstat(fd).st_size
        if self._end is None or size < self._end:
            # Not loaded yet, or made shorter by someone else: find the last whole line anew.
            self._end = read_file(self._path).rfind(b"\n") + 1
        if size > self._end:
            os.ftruncate(fd, self._end)
        return self._end

    def _keep_bad_lines(self) -> None:
        kept = self._path.with_name(SET_ASIDE)
        lines = read_file(kept).split(b"\n") if kept.exists() else [b""]
        fresh = [raw for raw in dict.fromkeys(self._unkept) if raw not in set(lines)]
        if fresh:
            fd = os.open(kept, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                write_all(fd, b"".join([b"\n" if lines[-1] else b"", *(raw + b"\n" for raw in fresh)]))
                os.fsync(fd)
            finally:
                os.close(fd)
        self._unkept = []
