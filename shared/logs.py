"""One log for the front, the zygote and all workers: JSON lines in the config dir, rotated by size.

Each line is appended with one write, so that processes may share the file. Stray prints, warnings and
stack dumps land in the same file as they are. What is logged never holds what a user or a model said.
A thread of its own writes, begun with the first record: a slow disk must not look like a hung loop.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import queue
import shutil
import threading
import time
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from shared.paths import make_private

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME: Final = "iac-code.jsonl"
_ROTATE_AT: Final = 8 * 2**20
_KEEP: Final = 4


class JsonLines(logging.Handler):
    """Writes records to a descriptor that was opened for appending.

    `rotates` is the file's path where this process is the one that rotates it as it grows.
    """

    def __init__(
        self, fd: int, process: str, session: str | None = None, rotates: Path | None = None
    ) -> None:
        super().__init__()
        self._fd = fd
        self._rotates = rotates
        self._lines: queue.SimpleQueue[bytes | threading.Event | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._fixed = {"process": process} | ({"session": session} if session else {})

    def emit(self, record: logging.LogRecord) -> None:
        """One line; a full disk must not end what was being logged."""
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **self._fixed,
            "pid": os.getpid(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = logging.Formatter().formatException(record.exc_info)
        try:
            line = to_json(entry, fallback=str)
        except ValueError:  # a lone surrogate, of a file's name say
            line = json.dumps(entry, default=str, ensure_ascii=False).encode(errors="replace")
        self._lines.put(line + b"\n")
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="log", daemon=True)
            self._writer.start()

    def flush(self) -> None:
        """Wait until all records so far are written, or the disk has had its second."""
        if self._writer is not None:
            written = threading.Event()
            self._lines.put(written)
            written.wait(1.0)

    def close(self) -> None:
        """Write what is left, within the disk's second, and end the thread. The descriptor stays open."""
        self.flush()
        if self._writer is not None:
            self._lines.put(None)
            self._writer.join(1.0)
            self._writer = None
        super().close()

    def _write(self) -> None:
        while (item := self._lines.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            with contextlib.suppress(OSError):  # a full disk must not end what was being logged
                os.write(self._fd, item)
                if self._rotates is not None and os.fstat(self._fd).st_size > _ROTATE_AT:
                    _empty(self._fd, self._rotates)


def _empty(fd: int, path: Path) -> None:
    """Move the content to `.1` and go on in the same file: workers have it open for appending too."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another front does it
    try:
        _shift(path)
        shutil.copyfile(path, path.with_suffix(".jsonl.1"))
        os.ftruncate(fd, 0)
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _shift(path: Path) -> None:
    for n in range(_KEEP, 1, -1):
        with contextlib.suppress(FileNotFoundError):
            path.with_suffix(f".jsonl.{n - 1}").replace(path.with_suffix(f".jsonl.{n}"))


def open_log(folder: Path) -> int:
    """A descriptor that appends to the log, after rotating it if it has grown. Made 0600 in a 0700 folder."""
    make_private(folder)
    path = folder / FILE_NAME
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _ROTATE_AT:
            _shift(path)
            path.replace(path.with_suffix(".jsonl.1"))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def start(fd: int, process: str, session: str | None = None, rotates: Path | None = None) -> None:
    """Send this process's log records, warnings among them, to `fd`. `rotates`: see JsonLines."""
    root = logging.getLogger()
    root.handlers[:] = [JsonLines(fd, process, session, rotates)]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    # The SDK's HTTP client logs each request with its URL at INFO; URLs may carry what is not ours to keep.
    for noisy in ("httpx", "httpx2", "httpcore", "anthropic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
