"""What a worker's death leaves for a person to read: `crash-<epoch>.txt` in the session's folder."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

from anyio import to_thread

from shared.meta import HISTORY

if TYPE_CHECKING:
    from pathlib import Path

    from supervisor.session import Session
    from supervisor.tasks import FrontTasks

log = logging.getLogger(__name__)

_TAIL = 16 * 1024
_KEEP = 10


def report(folder: Path, session_id: str, machine: Session, reason: str, tasks: FrontTasks) -> None:
    """Write the report in the background."""
    turn = machine.turn
    lines = [
        f"session {session_id}, epoch {machine.epoch}",
        f"time    {time.strftime('%Y-%m-%d %H:%M:%S %Z')}",
        f"reason  {reason}",
        f"state   {machine.worker}, {'in a turn' if turn else 'idle'}",
    ]
    if turn is not None:
        running = [f"{call_id} {status}" for call_id, status in turn.calls.items()]
        lines.append(f"calls   {', '.join(running) or 'none'}")
    tasks.start_soon(_write, folder, machine.epoch, "\n".join(lines))


async def _write(folder: Path, epoch: int, head: str) -> None:
    try:
        await to_thread.run_sync(_write_file, folder, epoch, head)
    except OSError as e:
        log.warning("no crash report: %s", e)


def _write_file(folder: Path, epoch: int, head: str) -> None:
    stacks_path = folder / f"stacks-{epoch}.txt"
    stacks = stacks_path.read_text(encoding="utf-8", errors="replace") if stacks_path.exists() else ""
    stacks_path.unlink(missing_ok=True)
    path = folder / f"crash-{epoch}.txt"
    path.touch(mode=0o600)
    stacks = stacks or "none: it could not write any"
    path.write_text(
        f"{head}\n\nlast records (kinds)\n{_last_records(folder)}\n\nstacks\n{stacks}\n", encoding="utf-8"
    )
    reports = sorted(folder.glob("crash-*.txt"), key=lambda found: found.stat().st_mtime)
    for old in reports[:-_KEEP]:
        old.unlink(missing_ok=True)


def _last_records(folder: Path) -> str:
    """Kind, turn and call of the newest records: what was said in them stays in the history alone."""
    from pydantic_core import from_json

    try:
        # Not blocking: a FIFO in its place must not keep the report waiting.
        fd = os.open(folder / HISTORY, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as f:
            f.seek(max(0, os.fstat(fd).st_size - _TAIL))
            tail = f.read().split(b"\n")[-12:]
    except OSError as e:
        return f"cannot be read: {e.strerror}"
    told: list[str] = []
    for line in tail:
        try:
            record = from_json(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            told.append(
                " ".join(
                    f"{key}={record[key]}" for key in ("kind", "turn_id", "call_id", "tool") if key in record
                )
            )
    return "\n".join(told) or "none"
