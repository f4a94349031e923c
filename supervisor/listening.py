"""Where the shared agent listens: who may be it, the socket (its own or systemd's), and what a restart keeps.

A socket is handed over an exec as systemd hands one over, so clients that come in between wait in its queue.
"""

from __future__ import annotations

import fcntl
import os
import socket
from typing import TYPE_CHECKING, Final

from shared.paths import runtime_root
from supervisor.pipe import socket_path

if TYPE_CHECKING:
    from collections.abc import Callable

_PASSED_FD: Final = 3
_OURS: Final = "iac-code"
"""LISTEN_FDNAMES of a socket that this program made itself before it started anew."""
_LOCK_FD: Final = "IAC_CODE_SHARED_LOCK"
_TOLD: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", _LOCK_FD)


class AlreadyRuns(Exception):
    """A shared agent of this user runs; `str()` is a sentence with its pid."""


def lock_path() -> str:
    """The file that the shared agent holds a lock on, and that names its pid."""
    return str(runtime_root() / "shared.lock")


def take_lock(told: dict[str, str], tell: Callable[[str], None]) -> int:
    """Be the one shared agent of this user for as long as the process lives; the lock's descriptor.

    Raises AlreadyRuns, OSError, RuntimeError. `told`: see `told_by_starter`; a program that starts anew
    never lets go of the lock. `tell` hears what was put right in the runtime folder.
    """
    runtime_root(tell)
    if _LOCK_FD in told:
        lock = int(told[_LOCK_FD])
        os.set_inheritable(lock, False)
        return lock
    lock = os.open(lock_path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = holder(lock)
        os.close(lock)
        raise AlreadyRuns(
            f"a shared agent of yours runs already (process {pid}; see `iac-code ps`)"
        ) from None
    os.pwrite(lock, b"%-20d\n" % os.getpid(), 0)
    return lock


def holder(lock: int) -> int:
    """The pid in the lock file; 0 where there is none."""
    try:
        return max(int(os.pread(lock, 20, 0)), 0)
    except ValueError:
        return 0


def told_by_starter() -> dict[str, str]:
    """What systemd, or this program before it started anew, told this process alone.

    It is taken out of the environment, which workers and tools get.
    """
    return {name: os.environ.pop(name) for name in _TOLD if name in os.environ}


class Listener:
    """The socket that clients connect to."""

    def __init__(self, told: dict[str, str], tell: Callable[[str], None]) -> None:
        """Listen on what was handed over, or on a socket of our own: the lock says that one there is stale.

        `told`: see `told_by_starter`. Raises OSError.
        """
        handed = told.get("LISTEN_PID") == str(os.getpid()) and told.get("LISTEN_FDS") == "1"
        self._told = told
        self._is_ours = not handed or told.get("LISTEN_FDNAMES") == _OURS
        self.socket = socket.socket(fileno=_PASSED_FD) if handed else _made(tell)
        os.set_inheritable(self.socket.fileno(), False)
        self.socket.setblocking(False)

    def close(self) -> None:
        """Nobody can connect any more; a socket of systemd's stays, and starts the agent again."""
        self.socket.close()
        if self._is_ours:
            socket_path().unlink(missing_ok=True)

    def hand_over(self, lock: int) -> dict[str, str]:
        """Keep socket and lock over an exec that follows at once; what the program is to be told of them."""
        lock = fcntl.fcntl(lock, fcntl.F_DUPFD, _PASSED_FD + 1)  # not what the socket is moved to
        os.set_inheritable(lock, True)
        fd = self.socket.detach()
        if fd == _PASSED_FD:
            os.set_inheritable(fd, True)
        else:
            os.dup2(fd, _PASSED_FD)
        told = {**self._told, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", _LOCK_FD: str(lock)}
        return {**told, "LISTEN_FDNAMES": _OURS} if self._is_ours else told


def _made(tell: Callable[[str], None]) -> socket.socket:
    path = socket_path()
    if path.is_socket():
        tell(f"{path} was left by a shared agent that was killed; it is removed")
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        made.bind(str(path))
    finally:
        os.umask(old)
    made.listen(64)
    return made
