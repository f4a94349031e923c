"""Opening a file or folder that a call names: never blocking, and judged again by what was opened.

Between the decision and the opening someone may swap a link. So the descriptor is asked where it
leads, and what it leads to must be inside the roots or what was permitted. Blocking calls: for threads.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worker.boundaries import inside, sensitive
from worker.tools.base import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.tools.base import ToolContext

_KINDS: Final = {
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
_KERNEL_FOLDERS: Final = ("/proc", "/sys")


class MissingError(ToolError):
    """There is nothing at the path."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What one call may open: everything inside `roots` that is not sensitive, and `permitted`.

    `write`: the call changes what it opens.
    """

    roots: tuple[Path, ...]
    permitted: frozenset[Path]
    write: bool

    @classmethod
    def of(cls, context: ToolContext, *, write: bool) -> Reach:
        """The reach of a call for reading, or for writing."""
        allowed = frozenset(a.path for a in context.permitted if a.write or not write)
        return cls(context.roots, allowed, write)

    def check(self, found: Path) -> None:
        """Raises ToolError for a path that this call was not permitted."""
        if found in self.permitted:
            return
        if inside(found, self.roots) and sensitive(found, write=self.write) is None:
            return
        raise ToolError(
            f"The path led to {found} when it was opened, which is not what this call was permitted to use. "
            "Name that path itself, so that it can be asked for."
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """An open descriptor, the path that the kernel gives for it, and what it is."""

    fd: int
    path: Path
    stat: os.stat_result


@contextlib.contextmanager
def open_file(path: Path, reach: Reach | None) -> Iterator[Opened]:
    """Open a resolved path for reading as a regular file; anything else is refused without waiting for it.

    `reach` None judges nothing (for what only the user is shown). Raises ToolError that says what the
    path is instead.
    """
    _refuse_odd(path, _stat(path))
    with _open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, reach) as opened:
        _refuse_odd(path, opened.stat)
        yield opened


@contextlib.contextmanager
def open_folder(path: Path, reach: Reach | None) -> Iterator[Opened]:
    """Open a resolved path as a folder. Raises ToolError."""
    found = _stat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path} is not a folder. Read a file with read_file.")
    with _open(path, os.O_RDONLY | os.O_DIRECTORY, reach) as opened:
        yield opened


@contextlib.contextmanager
def _open(path: Path, flags: int, reach: Reach | None) -> Iterator[Opened]:
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as e:
        raise _error(path, e) from e
    try:
        found = os.fstat(fd)
        real = path_of(fd) if found.st_nlink else path
        if reach is not None:
            reach.check(real)
        yield Opened(fd, real, found)
    finally:
        os.close(fd)


def path_of(fd: int) -> Path:
    """Where an open descriptor leads, as the kernel says it."""
    if hasattr(fcntl, "F_GETPATH"):
        return Path(os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")))
    return Path(f"/proc/self/fd/{fd}").readlink()


def _stat(path: Path) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as e:
        raise _error(path, e) from e


def _refuse_odd(path: Path, found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise ToolError(f"{path} is a folder. See what is in it with list_files.")
    if kind == stat.S_IFLNK:
        raise ToolError(f"{path} is a symbolic link that leads nowhere or in a circle.")
    if kind != stat.S_IFREG:
        raise ToolError(
            f"{path} is {_KINDS.get(kind, 'a special file')}, not a regular file, "
            "so it is not read or written."
        )
    if any(path.is_relative_to(folder) for folder in _KERNEL_FOLDERS) or found.st_dev in _kernel_devices():
        raise ToolError(
            f"{path} is made by the kernel while it is read, which may block or never end. "
            "Use bash with a time-out to see it."
        )


def _kernel_devices() -> set[int]:
    """Devices of /proc and /sys, which may be mounted elsewhere too."""
    found: set[int] = set()
    root = Path("/").stat().st_dev
    for folder in _KERNEL_FOLDERS:
        with contextlib.suppress(OSError):
            found.add(Path(folder).stat().st_dev)
    return found - {root}


def _error(path: Path, error: OSError) -> ToolError:
    missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
    return (MissingError if missing else ToolError)(describe(path, error))


def describe(path: Path, error: OSError) -> str:
    """One sentence for the model: what could not be opened, why, and what to do."""
    if error.errno == errno.ENOTDIR:
        file = next((p for p in (path, *path.parents) if p.exists() and not p.is_dir()), path)
        return f"{path} does not exist: {file} is a file, not a folder."
    if error.errno == errno.ENOENT:
        return f"{path} does not exist.{_similar(path)}"
    if error.errno == errno.ELOOP:
        return f"{path} is a symbolic link that leads in a circle, or that was changed meanwhile."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{path} cannot be opened: {error.strerror}. Its owner or mode forbids it."
    return f"{path} cannot be opened: {error.strerror or error}."


def _similar(path: Path) -> str:
    """Names beside a missing one that it may have been meant for, or the folder that is missing."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(2000), strict=False)]
    except OSError:
        return f" Its folder {path.parent} does not exist either."
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.7)
    return f" Did you mean {', '.join(repr(name) for name in close)}?" if close else ""
