"""`iac-code sessions`: what is stored, read from disk. Nothing here writes: `rm` removes a session, `close`
asks the agent that has it open."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table

from shared import journal, paths
from shared.lines import encode
from shared.lock import SessionHeld, SessionLock
from shared.meta import HISTORY
from shared.store import NewerFormat, SessionNotFound, Store
from supervisor.cli.failure import CommandError
from supervisor.cli.history_view import show_record
from supervisor.cli.ps import ask_all
from supervisor.cli.terminal import console, harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.meta import Meta

_PAGE: Final = 200
_CLOSE_WITHIN: Final = 10.0
"""Seconds that a worker has to end in good order, and then some."""


def list_sessions(cwd: str | None) -> int:
    """Print a table of the sessions, newest first; of one folder with `cwd`."""
    screen = console()
    table = Table(box=box.SIMPLE_HEAD if screen.is_terminal else None, pad_edge=False)
    table.add_column("session", no_wrap=True)
    table.add_column("changed", no_wrap=True)
    table.add_column("folder")
    table.add_column("title")
    for meta in _all(Store(paths.sessions_dir()), str(Path(cwd).resolve()) if cwd else None):
        table.add_row(
            meta.session_id,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(meta.updated)),
            harmless(meta.cwd).replace("[", "\\["),
            harmless(meta.title or "").replace("[", "\\["),
        )
    if table.row_count:
        screen.print(table)
    else:
        screen.print(f"No sessions{f' of {cwd}' if cwd else ''}.", markup=False)
    return 0


def show(session_id: str, *, as_json: bool) -> int:
    """Print a session's conversation, or its records as JSON. Raises CommandError."""
    _, folder = _find(session_id)
    history = folder / HISTORY
    records, problems, _ = journal.read(history)
    screen = console()
    for record in records:
        if as_json:
            print(encode(record).decode(), end="")
        else:
            show_record(record, screen)
    for problem in problems:
        print(f"iac-code: {history}, line {problem.line}: {problem.reason}", file=sys.stderr)
    if not as_json and not records:
        screen.print("Nothing was said in this session yet.")
    return 0


def remove(session_id: str) -> int:
    """Delete a session that no agent holds. Raises CommandError."""
    store, folder = _find(session_id)
    try:
        lock = SessionLock.acquire(folder)
    except SessionHeld as e:
        raise CommandError(
            f"{e} It is not deleted: close it (`iac-code sessions close`) or end that process."
        ) from e
    try:
        store.delete(session_id)
    finally:
        lock.release()
    print(f"Deleted session {session_id}.")
    return 0


def close(session_id: str) -> int:
    """Close a session that an agent has open, for all of its clients. Raises CommandError."""
    _find(session_id)
    told = [answer for answer in ask_all({"close": session_id}, _CLOSE_WITHIN) if answer.get("open")]
    if not told:
        raise CommandError(
            f"Session {session_id} is not open in any running agent, so there is nothing to close."
        )
    (closed,) = told[:1]
    if "problem" in closed:
        raise CommandError(
            f"Session {session_id} is closed, but that could not be stored: {closed['problem']}"
        )
    lost = [
        _counted(closed["turns"], "prompt was cancelled", "prompts were cancelled"),
        _counted(closed["background"], "background task was ended", "background tasks were ended"),
        _counted(closed["clients"], "client had it", "clients had it"),
    ]
    about = "; ".join(part for part in lost if part)
    print(f"Closed session {session_id}" + (f": {about}." if about else "."))
    return 0


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}" if number else ""


def _find(session_id: str) -> tuple[Store, Path]:
    """The store and the session's folder in it. Raises CommandError for what is not stored."""
    store = Store(paths.sessions_dir())
    try:
        store.meta(session_id)
        return store, store.folder(session_id)
    except SessionNotFound:
        raise CommandError(f"There is no session {session_id}; `iac-code sessions list` shows all.") from None
    except NewerFormat as e:
        raise CommandError(str(e)) from e


def _all(store: Store, cwd: str | None) -> Iterator[Meta]:
    cursor: str | None = None
    while True:
        page, cursor = store.list(cwd, cursor, _PAGE)
        yield from page
        if cursor is None:
            return
