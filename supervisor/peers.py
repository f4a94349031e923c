"""Who is at the other end of a Unix socket."""

from __future__ import annotations

import os
import socket
import struct

_SIZE = struct.calcsize("3i")


def credentials(peer: socket.socket) -> tuple[int, int] | None:
    """The peer's `(pid, uid)` as of its connect or listen; None where the kernel does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    pid, uid, _gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _SIZE))
    return pid, uid


def same_user(peer: socket.socket) -> bool:
    """Whether it is this user's process. Where the kernel is silent the folder's mode alone decides."""
    found = credentials(peer)
    return found is None or found[1] == os.getuid()
