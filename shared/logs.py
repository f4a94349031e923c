"""One log for the front, the zygote and all workers: JSON lines in the config dir, rotated by size.

Each line is appended with one write, so that processes may share the file. Stray prints, warnings and
stack dumps land in the same file as they are. What is logged never holds what a user or a model said.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
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
    """Writes records to a descriptor that was opened for appending."""

    def __init__(self, fd: int, process: str, session: str | None = None) -> None:
        super().__init__()
        self._fd = fd
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
        with contextlib.suppress(OSError):
            os.write(self._fd, line + b"\n")


def open_log(folder: Path) -> int:
    """A descriptor that appends to the log, after rotating it if it has grown. Made 0600 in a 0700 folder."""
    make_private(folder)
    path = folder / FILE_NAME
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _ROTATE_AT:
            for n in range(_KEEP, 0, -1):
                older = path if n == 1 else path.with_suffix(f".jsonl.{n - 1}")
                with contextlib.suppress(FileNotFoundError):
                    older.replace(path.with_suffix(f".jsonl.{n}"))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def start(fd: int, process: str, session: str | None = None) -> None:
    """Send this process's log records, warnings among them, to `fd`."""
    root = logging.getLogger()
    root.handlers[:] = [JsonLines(fd, process, session)]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    # The SDK's HTTP client logs each request with its URL at INFO; URLs may carry what is not ours to keep.
    for noisy in ("httpx", "httpx2", "httpcore", "anthropic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
