"""Writing a file so that a kill or a full disk leaves the old content or the new, whole.

The new content goes to a file beside it, is synced and renamed over it. A rename would cut a hard link
and cannot keep a foreign owner, nor replace a mount point; such a file is written in place, after a
synced copy of the new content was put beside it, which stays if the writing is cut short. Folders are
held by descriptors, so that no link that is swapped meanwhile leads elsewhere. Blocking: for threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from typing import TYPE_CHECKING

from shared.durable import write_all
from worker.files.content import stamp_of
from worker.files.opening import describe, path_of
from worker.tools.base import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worker.files.opening import Reach

_UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)


def write_whole(path: Path, data: bytes, expected: os.stat_result | None, reach: Reach) -> str:
    """Make `data` the content of a resolved path, and return its stamp when it is on the disk.

    `expected` is the file as it was read, None for one that did not exist: another that stands there by
    now is not overwritten. Mode, owner and extended attributes stay; missing folders are made. Raises
    ToolError; then the content is the old one, or the error names the copy that has the new.
    """
    try:
        with _folder(path, reach) as folder:
            return _write(folder, path, data, expected)
    except OSError as e:
        raise ToolError(f"{path} was not written, and is as it was: {e.strerror or e}.") from e


class _CutShortError(ToolError):
    """A file that is written in place holds parts of both contents; the copy beside it stays."""


@contextlib.contextmanager
def _folder(path: Path, reach: Reach) -> Iterator[int]:
    """A descriptor of the folder of `path`, made with those above it that are missing."""
    missing: list[str] = []
    above = path.parent
    while not os.path.lexists(above):
        missing.append(above.name)
        above = above.parent
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(above, flags)
    except OSError as e:
        raise ToolError(f"{path} cannot be written. {describe(above, e)}") from e
    try:
        reach.check(path_of(fd).joinpath(*reversed(missing), path.name))
        for name in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=fd)
            below = os.open(name, flags, dir_fd=fd)
            os.fsync(fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _write(folder: int, path: Path, data: bytes, expected: os.stat_result | None) -> str:
    if expected is not None and not os.access(path.name, os.W_OK, dir_fd=folder):
        raise ToolError(
            f"{path} is not writable (mode {stat.S_IMODE(expected.st_mode):04o}), so it was left alone."
        )
    beside = f".iac-code-{secrets.token_hex(8)}.tmp"
    fd = os.open(
        beside,
        os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o666 if expected is None else 0o600,
        dir_fd=folder,
    )
    try:
        write_all(fd, data)
        in_place = expected is not None and (
            expected.st_nlink > 1 or not _keep(fd, folder, path.name, expected)
        )
        os.fsync(fd)
        _check_unchanged(folder, path, expected)
        if expected is None:
            _link_new(beside, path, folder)
        elif in_place or not _rename(beside, path.name, folder):
            return _overwrite(folder, path, data, expected, path.parent / beside)
        os.fsync(folder)
        return stamp_of(data, os.fstat(fd))
    except _CutShortError:
        beside = ""
        raise
    finally:
        os.close(fd)
        if beside:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=folder)


def _keep(fd: int, folder: int, name: str, expected: os.stat_result) -> bool:
    """Give the new file the old one's owner, mode and attributes. False if the owner cannot be kept."""
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (expected.st_uid, expected.st_gid):
        try:
            os.fchown(fd, expected.st_uid, expected.st_gid)
        except PermissionError:
            return False
    os.fchmod(fd, stat.S_IMODE(expected.st_mode))
    if hasattr(os, "listxattr"):
        old = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            _keep_attributes(old, fd)
        finally:
            os.close(old)
    return True


def _keep_attributes(old: int, new: int) -> None:
    # Some belong to the system (security.*, trusted.*) and may not be set; the file is no worse for it.
    with contextlib.suppress(OSError):
        for attribute in os.listxattr(old):
            with contextlib.suppress(OSError):
                os.setxattr(new, attribute, os.getxattr(old, attribute))


def _check_unchanged(folder: int, path: Path, expected: os.stat_result | None) -> None:
    try:
        found: os.stat_result | None = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        found = None
    if (found is None) == (expected is None) and (
        found is None or expected is None or _identity(found) == _identity(expected)
    ):
        return
    raise ToolError(
        f"{path} was changed by someone else at this moment, so it was left alone. Read it again."
    )


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _link_new(beside: str, path: Path, folder: int) -> None:
    """Give a new file its name, unless something has that name by now."""
    try:
        os.link(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError as e:
        raise ToolError(f"{path} came into being at this moment, so it was left alone. Read it first.") from e
    except OSError as e:
        if e.errno not in _UNSUPPORTED:
            raise
        os.rename(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        # Before the file is stamped: to lose a name changes its times.
        os.unlink(beside, dir_fd=folder)


def _rename(beside: str, name: str, folder: int) -> bool:
    try:
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as e:
        # A file that is a mount point of its own, as containers have them.
        if e.errno == errno.EBUSY:
            return False
        raise
    return True


def _overwrite(folder: int, path: Path, data: bytes, expected: os.stat_result, copy: Path) -> str:
    fd = os.open(path.name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if _identity(os.fstat(fd)) != _identity(expected):
            raise ToolError(f"{path} was changed by someone else at this moment. Read it again.")
        write_all(fd, data)
        # Cut last: until then the old end is still there.
        os.ftruncate(fd, len(data))
        os.fsync(fd)
        return stamp_of(data, os.fstat(fd))
    except OSError as e:
        raise _CutShortError(
            f"{path} was written in part only: {e.strerror or e}. Its whole new content is in {copy}; "
            "copy it over the file when the cause is gone."
        ) from e
    finally:
        os.close(fd)
