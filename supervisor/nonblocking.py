"""A descriptor that is written without blocking, for us alone. No event loop: the pipe needs none."""

from __future__ import annotations

import os
import stat


def open_nonblocking(fd: int) -> int:
    """A non-blocking descriptor for writing to what `fd` writes to.

    O_NONBLOCK belongs to the open file, which the editor or the user's shell may share. So a pipe or
    terminal is opened anew by way of /proc where there is one. Closes `fd` if another takes its place.
    """
    kind = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)):
        if stat.S_ISSOCK(kind):
            os.set_blocking(fd, False)
        return fd
    try:
        own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        os.set_blocking(fd, False)
        return fd
    os.close(fd)
    return own
