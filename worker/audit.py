"""The session's `audit.jsonl`: every decision on a tool call, a JSON object a line, for people to look at.

What was to be done is told by the tool, its paths, the command or the address; never by contents, so that
nothing is in it that a file held or a model was sent. Nothing reads it back. That it cannot be written is
logged, and stops nothing.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from pydantic_core import to_json

from shared.durable import write_all

if TYPE_CHECKING:
    from pathlib import Path

    from worker.permissions import Call
    from worker.tools.base import ToolInput

log: Final = logging.getLogger(__name__)

_LONGEST: Final = 10_000
"""Characters of a command."""
_MOST_PATHS: Final = 100


class Audit:
    """Appends to one file (0600), in order, away from the event loop."""

    def __init__(self, path: Path, epoch: int) -> None:
        self._path = path
        self._epoch = epoch
        self._writing = anyio.Lock()
        self._failed = False

    async def write(
        self,
        turn_id: str,
        call_id: str,
        parent: str | None,
        subject: dict[str, Any],
        decision: dict[str, str],
    ) -> None:
        """One line: the call, what it was to do (see `subject_of`), and the decision with its reasons."""
        entry: dict[str, Any] = {"time": time.time(), "epoch": self._epoch, "turn_id": turn_id}
        entry |= {"call_id": call_id, **({"parent": parent} if parent is not None else {})}
        line = to_json(entry | subject | decision, inf_nan_mode="null") + b"\n"
        async with self._writing:
            try:
                await to_thread.run_sync(self._append, line)
            except OSError as e:
                if not self._failed:
                    log.error("%s cannot be written: %s", self._path, e.strerror or e)
                self._failed = True

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        try:
            write_all(fd, line)
        finally:
            os.close(fd)


def subject_of(call: Call, args: ToolInput) -> dict[str, Any]:
    """What a call is to do, as far as it may be kept."""
    subject: dict[str, Any] = {"tool": call.tool}
    if call.command is not None:
        subject["command"] = _plain(call.command[:_LONGEST])
    if call.accesses:
        subject["paths"] = [
            {"path": _plain(str(access.path)), "write": access.write}
            for access in call.accesses[:_MOST_PATHS]
        ]
    if call.kind == "fetch":
        subject["url"] = _place(getattr(args, "url", ""))
    if call.crosses is not None:
        subject["crosses"] = _plain(call.crosses)
    return subject


def _place(url: str) -> str:
    """An address without its user, query and fragment, where keys are sent."""
    try:
        parts = urlsplit(url)
        return _plain(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")
    except ValueError:
        return "(not an address)"


def _plain(text: str) -> str:
    """A name may hold bytes that are no text."""
    return text.encode("utf-8", "replace").decode()
