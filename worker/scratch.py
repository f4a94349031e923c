"""A session's folder for temporary files (`TMPDIR` of its commands), and the removal of what others left.

It lies among the system's own temporary files, not in the session's folder: a path of a socket has 107
bytes at most. Removed when the session ends; where its worker was killed, by another that lives a while.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import math
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worker.boundaries import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

_ABANDONED_AFTER: Final = 600
"""Seconds since the last change in a folder that no worker holds: between two epochs nobody does."""


class Scratch:
    """The folder of one session, the same in each epoch. All methods block: for a thread."""

    def __init__(self, session_dir: Path) -> None:
        name = hashlib.blake2b(os.fsencode(session_dir), digest_size=6).hexdigest()
        self.path = _place() / f"{_prefix()}{name}"
        self._held = -1

    def make(self) -> None:
        """Have it, for this user alone. Raises OSError, also where someone else's thing has its name."""
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        if not _is_own(self.path):
            raise OSError(errno.EPERM, f"{self.path}, for temporary files, is someone else's: remove it")
        if self._held < 0:
            self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(self._held, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def remove(self, end: float = math.inf) -> None:
        """No command runs any more. At most until `end` on the monotonic clock; the rest another time."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
        _remove(self.path, end)


def remove_abandoned() -> None:
    """Remove the folders of this user's sessions whose workers were killed. Blocks, it may be for long."""
    for folder in _others():
        _remove(folder, math.inf)


def _remove(folder: Path, end: float) -> None:
    """Remove a folder that no worker holds."""
    try:
        if not _is_own(folder):
            return
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    # What cannot be removed is left to the system's own tidying.
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for _, folders, files, at in os.fwalk(".", topdown=False, dir_fd=fd):
            for name in (*files, *folders):
                if time.monotonic() > end:
                    break
                with contextlib.suppress(OSError):
                    # A link to a folder is listed as one, and is a file to be unlinked.
                    is_folder = stat.S_ISDIR(os.lstat(name, dir_fd=at).st_mode)
                    (os.rmdir if is_folder else os.unlink)(name, dir_fd=at)
        folder.rmdir()
    os.close(fd)


def _others() -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(_place()) as entries:
        prefix = _prefix()
        for entry in entries:
            if entry.name.startswith(prefix):  # before all else: there may be tens of thousands of others
                folder = Path(entry.path)
                with contextlib.suppress(OSError):
                    old = time.time() - folder.lstat().st_mtime > _ABANDONED_AFTER
                    if old and _is_own(folder):
                        yield folder


def _place() -> Path:
    # Not `tempfile.gettempdir`, which writes a file to try, so that a full disk would leave no place.
    named = os.environ.get("TMPDIR", "")
    return resolve(Path(named if os.path.isabs(named) and os.path.isdir(named) else "/tmp"))


def _prefix() -> str:
    return f"iac-code-scratch-{os.getuid()}-"


def _is_own(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
