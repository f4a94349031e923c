"""Files that are whole and on the disk when the call returns, or as they were.

Blocking: call from a thread. Each name here is a place where the disk may fail: the fault points are
`<stem>.write`, `<stem>.written` (before the sync) and `<stem>.replaced`, e.g. `meta.write`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from typing import TYPE_CHECKING

from shared.faults import fault_point

if TYPE_CHECKING:
    from pathlib import Path


def write_all(fd: int, data: bytes) -> None:
    """Write all of it: a disk that fills up takes a part first and fails only at the next write."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class NoRegularFile(OSError):
    """A folder, a FIFO or the like has the file's name."""


def read_file(path: Path) -> bytes:
    """All of a file. Raises OSError, NoRegularFile for what else has its name: a FIFO is not waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NoRegularFile(errno.EINVAL, "what is there is no regular file", str(path))
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable: files made, renamed and removed there. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_file(path: Path, data: bytes, *, mtime: float | None = None, stem: str | None = None) -> None:
    """Write a file (0600) and sync it; its name, and an empty file, is durable after `sync_folder`.

    `mtime` in seconds since 1970 is set as the time of its last change. `stem` names the fault points
    where it is not the path's own. Raises OSError.
    """
    stem = stem or path.stem
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fault_point(f"{stem}.write")
        write_all(fd, data)
        if mtime is not None:
            os.utime(fd, ns=(int(mtime * 1e9), int(mtime * 1e9)))
        fault_point(f"{stem}.written")
        if data:
            os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes, *, mtime: float | None = None) -> None:
    """Replace a file's content: readers, and a kill at any moment, find the old or the new, whole.

    Raises OSError; then it is the old one, unless only the last sync of the folder failed.
    """
    # A name per thread: two that write at once do not mix, and a killed one's rest is used again.
    made = path.with_name(f".{path.name}.{threading.get_native_id()}")
    try:
        write_file(made, data, mtime=mtime, stem=path.stem)
        made.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            made.unlink()
        raise
    fault_point(f"{path.stem}.replaced")
    sync_folder(path.parent)
