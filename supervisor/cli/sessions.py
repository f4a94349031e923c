"""`iac-code sessions`: what is stored, read from disk. Nothing here writes; only `rm` removes a session."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table

from shared import journal, paths
from shared.lock import SessionHeld, SessionLock
from shared.store import NewerFormat, SessionNotFound, Store
from supervisor.cli.failure import CommandError
from supervisor.cli.history_view import show_record
from supervisor.cli.terminal import console, harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.meta import Meta

_PAGE: Final = 200


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
    history = folder / journal.HISTORY
    records, problems, _ = journal.read(history)
    screen = console()
    for record in records:
        if as_json:
            print(record.model_dump_json())
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
        raise CommandError(f"{e} It is not deleted: close it there, or end that process.") from e
    try:
        store.delete(session_id)
    finally:
        lock.release()
    print(f"Deleted session {session_id}.")
    return 0


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
