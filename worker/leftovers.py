"""Which process below this worker belongs to which call. It takes away zombies, but never signals.

An orphan of a tool becomes the worker's own child (the worker is a subreaper), and nothing in the
kernel says whose it was. So each call is known by marks that a process inherits and rarely sheds all
at once: the session id, a resource limit, a variable in its environment, the pipe its output goes to.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from shared.processes import children, descendants

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_LIMIT: Final = 10
"""RLIMIT_LOCKS, which Linux has kept without heeding it since 2.4.25; `resource` does not name it."""
MARKER: Final = "IAC_CODE_CALL"
"""The environment variable that marks what a call started."""
KEPT: Final = "kept"
"""The marker's value for children that no sweep may touch (MCP servers)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What shows that a process is a call's: any one of these suffices."""

    token: str
    """A number: the value of `MARKER` in its environment, and its soft limit `_LIMIT`."""
    session: int
    """The pid of the call's first process, which leads its session."""
    pipes: frozenset[str]
    """Its output pipes, as `/proc/<pid>/fd` names them."""


@dataclass(frozen=True, slots=True)
class Trees:
    """All live processes below the worker, sorted by whose they are."""

    owned: dict[str, list[psutil.Process]]
    """By token; roots before what is below them."""
    unknown: list[list[psutil.Process]]
    """Trees of roots that bear no call's mark."""


@contextlib.contextmanager
def marking(token: str) -> Iterator[None]:
    """Give what is started within the limit that marks it as the call's. Not across an await.

    Where there is no such limit, or a lower one is set for good, the other marks must do.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    before = resource.getrlimit(_LIMIT)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(_LIMIT, (int(token), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(_LIMIT, before)


def attribute(claims: Collection[Claim], spare: Collection[int] = ()) -> Trees:
    """Sort the live processes below this one. Those below, and including, a pid in `spare` are left out.

    Blocks for about 0.1 ms a process: call it in a thread.
    """
    trees = Trees({claim.token: [] for claim in claims}, [])
    for pid in children(os.getpid()):
        if pid in spare or _was_zombie(pid, claims):
            continue
        tree = descendants(pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            if root.status() == psutil.STATUS_ZOMBIE:
                continue
            tree.insert(0, root)
            owner = _owner(root, claims)
            if owner == KEPT:
                continue
            if owner is None:
                trees.unknown.append(tree)
            else:
                trees.owned[owner].extend(tree)
    return trees


def _was_zombie(pid: int, claims: Collection[Claim]) -> bool:
    """Reap an ended orphan of a call. Two system calls: a fork bomb leaves tens of thousands."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        session = os.getsid(pid)
        if session != pid and any(claim.session == session for claim in claims):
            return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


def _owner(root: psutil.Process, claims: Collection[Claim]) -> str | None:
    """A claim's token, or KEPT, or None where nothing tells."""
    with contextlib.suppress(OSError):
        session = os.getsid(root.pid)
        for claim in claims:
            if claim.session == session:
                return claim.token
    # Before the environment, which daemons overwrite for their title in `ps`, and `env -i` empties.
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            limit = str(resource.prlimit(root.pid, _LIMIT)[0])
            if any(claim.token == limit for claim in claims):
                return limit
    with contextlib.suppress(psutil.Error):
        marker = root.environ().get(MARKER)
        if marker == KEPT or any(claim.token == marker for claim in claims):
            return marker
    for fd in range(3):
        with contextlib.suppress(OSError):
            target = str(Path(f"/proc/{root.pid}/fd/{fd}").readlink())
            for claim in claims:
                if target in claim.pipes:
                    return claim.token
    return None


def orphans_of(session: int) -> set[int]:
    """Live children of this process that are in a session they do not lead. Cheap, also for thousands."""
    found = set()
    for pid in children(os.getpid()):
        with contextlib.suppress(OSError):
            if pid != session and os.getsid(pid) == session:
                state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2]
                if not state.startswith(" Z"):
                    found.add(pid)
    return found


def zombie_children(spare: Collection[int]) -> set[int]:
    """Children of this process that ended and that nobody waited for, without those in `spare`."""
    found = set()
    for pid in children(os.getpid()):
        with contextlib.suppress(psutil.NoSuchProcess):
            if pid not in spare and psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                found.add(pid)
    return found


def reap(pids: Collection[int]) -> None:
    """Take away those that are zombies of this process: orphans became its own children."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
