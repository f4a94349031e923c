"""The sessions on disk: one folder each, made whole, listed, forked, deleted.

Blocking: call from a thread. Holds no lock; who writes a session's meta or deletes it has its lock.
"""

from __future__ import annotations

import base64
import bisect
import contextlib
import os
import re
import secrets
import shutil
import time
from typing import TYPE_CHECKING, Final

from shared.durable import read_file, replace_file, sync_folder, write_file
from shared.lock import LOCK
from shared.meta import FORMAT_VERSION, HISTORY, META, Meta, read_meta
from shared.paths import make_private

if TYPE_CHECKING:
    from pathlib import Path

SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""To be matched in full. Anything else is an unknown session."""

SPILL: Final = "spill"
"""The folder of a session's long outputs, each written once."""

Page = tuple[list[Meta], str | None]
_Place = tuple[int, str]
"""Where a session is in the list: minus the nanosecond of its last update, then its id."""
_Stamp = tuple[int, int]
"""Inode and change time of a meta file: different once it was replaced, whatever its mtime was set to."""
_Entries = list[tuple[int, str, int, int]]
"""Place and stamp of each session."""
_CURSOR: Final = re.compile(rf"(-?\d{{1,20}})\.({SESSION_ID.pattern})")

_SWEPT_AFTER: Final = 3600.0
"""Seconds."""


class SessionNotFound(LookupError):
    """No session has this id."""


class NewerFormat(Exception):
    """The session was written by a later version; `str()` tells the user what to do."""


def _link_all(source: Path, made: Path) -> None:
    """The files of a folder under the same names in a new one; they are never changed, so links do."""
    made.mkdir(mode=0o700)
    for file in source.iterdir():
        try:
            os.link(file, made / file.name, follow_symlinks=False)
        except OSError:
            # A file system without links, or one more than it takes.
            shutil.copy2(file, made / file.name, follow_symlinks=False)
    sync_folder(made)


class Store:
    """All sessions below one folder, which is made when the first session is."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cwds: dict[str, tuple[_Stamp, str]] = {}

    def folder(self, session_id: str) -> Path:
        """Where a session is or would be. Raises SessionNotFound for what cannot be an id."""
        if not SESSION_ID.fullmatch(session_id):
            raise SessionNotFound(session_id)
        return self._root / session_id

    def meta(self, session_id: str) -> Meta:
        """Raises SessionNotFound, NewerFormat, or OSError for what cannot be read."""
        try:
            meta = read_meta(self.folder(session_id))
        except (FileNotFoundError, NotADirectoryError):
            raise SessionNotFound(session_id) from None
        if meta.version > FORMAT_VERSION:
            raise NewerFormat(
                f"Session {session_id} was stored by a newer iac-code (format {meta.version}, this one knows "
                f"{FORMAT_VERSION}): update iac-code to open it."
            )
        return meta

    def create(self, meta: Meta) -> Path:
        """Store a new session without history; durable on return. Its folder. Raises OSError."""
        return self._create(meta, b"")

    def fork(self, source_id: str, meta: Meta) -> Path:
        """Store a new session with the history of another up to its last finished turn, without grants.

        The long outputs that its results name come along. Durable on return. Its folder. Raises
        SessionNotFound and NewerFormat for the source; OSError.
        """
        self.meta(source_id)
        source = self.folder(source_id)
        history = source / HISTORY
        if not history.exists():
            return self._create(meta, b"")
        there, here = (f"{folder}/{SPILL}/" for folder in (source, self.folder(meta.session_id)))
        # Only a fork looks into histories; an agent's first session would wait for this.
        from shared.lines import finished_turns, renamed_in_results

        kept = renamed_in_results(finished_turns(read_file(history)), there, here)
        return self._create(meta, kept, source / SPILL)

    def _create(self, meta: Meta, history: bytes, spill: Path | None = None) -> Path:
        folder = self.folder(meta.session_id)
        make_private(self._root)
        # Made under another name, so that whatever is killed, a session is there whole or not at all.
        made = self._root / f".new-{meta.session_id}"
        made.mkdir(mode=0o700)
        try:
            write_file(made / HISTORY, history)
            write_file(made / LOCK, b"")
            write_file(made / META, meta.encode(), mtime=meta.updated)
            if spill is not None and spill.is_dir():
                _link_all(spill, made / SPILL)
            made.rename(folder)
        except OSError:
            shutil.rmtree(made, ignore_errors=True)
            raise
        try:
            # After the rename, which they then make durable at one go: before it, it cost 1 ms more.
            sync_folder(folder)
            sync_folder(self._root)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    def write_meta(self, meta: Meta) -> None:
        """Replace a session's meta; durable on return. Raises SessionNotFound, OSError."""
        try:
            replace_file(self.folder(meta.session_id) / META, meta.encode(), mtime=meta.updated)
        except (FileNotFoundError, NotADirectoryError):
            raise SessionNotFound(meta.session_id) from None

    def delete(self, session_id: str) -> None:
        """Remove a session; one that is not there is no error. Gone at once, and for good on return.

        Raises OSError for what could not be removed.
        """
        if not SESSION_ID.fullmatch(session_id) or not self.folder(session_id).is_dir():
            return
        gone = self._root / f".deleted-{session_id}-{secrets.token_hex(4)}"
        try:
            self.folder(session_id).rename(gone)
        except FileNotFoundError:
            # Someone else was faster.
            return
        self._cwds.pop(session_id, None)
        sync_folder(self._root)
        shutil.rmtree(gone)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what a kill left: half a deletion; half a creation, unless it may be under way elsewhere."""
        old = time.time() - _SWEPT_AFTER
        for left in [*self._root.glob(".new-*"), *self._root.glob(".deleted-*")]:
            # One that vanishes meanwhile was another process's, which has finished with it.
            with contextlib.suppress(FileNotFoundError):
                if left.name.startswith(".deleted-") or left.lstat().st_mtime < old:
                    shutil.rmtree(left, ignore_errors=True)

    def list(self, cwd: str | None, cursor: str | None, limit: int = 50) -> Page:
        """At most `limit` sessions, last updated first, and the cursor of the next page or None.

        `cwd` keeps those whose folder it is when resolved. Sessions that come in between do not shift
        a page. Sessions of a newer version are listed too. Raises ValueError for a cursor that is none.
        """
        wanted = None if cwd is None else os.path.realpath(cwd)
        entries = self._entries()
        first = 0
        if cursor is not None:
            first = bisect.bisect_right(entries, _place(cursor), key=lambda entry: entry[:2])
        found: list[tuple[_Place, Meta]] = []
        for entry in entries[first:]:
            meta = self._listed(entry[1], entry[2:], wanted)
            if meta is not None:
                found.append((entry[:2], meta))
                if len(found) > limit:
                    break
        page = found[:limit]
        return [meta for _, meta in page], _cursor(page[-1][0]) if len(found) > limit else None

    def _entries(self) -> _Entries:
        """All sessions in order. Stats only: 10,000 take about 40 ms, where their metas would take 140."""
        entries: _Entries = []
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return entries
        # Names and a descriptor, not paths: a quarter faster.
        try:
            for name in filter(SESSION_ID.fullmatch, os.listdir(root)):
                for file in (META, HISTORY):
                    try:
                        found = os.stat(f"{name}/{file}", dir_fd=root)
                    except OSError:
                        continue
                    # `write_meta` sets the mtime to the session's own time of update.
                    entries.append((-found.st_mtime_ns, name, found.st_ino, found.st_ctime_ns))
                    break
        finally:
            os.close(root)
        entries.sort()
        return entries

    def _listed(self, session_id: str, stamp: _Stamp, wanted: str | None) -> Meta | None:
        """The session's meta, if it can be read and its cwd is the wanted one."""
        known = self._cwds.get(session_id)
        if wanted is not None and known is not None and known[0] == stamp and known[1] != wanted:
            return None
        try:
            meta = read_meta(self._root / session_id)
        except OSError:
            return None
        self._cwds[session_id] = (stamp, meta.cwd)
        return meta if wanted is None or meta.cwd == wanted else None


def _cursor(place: _Place) -> str:
    return base64.urlsafe_b64encode(f"{place[0]}.{place[1]}".encode()).decode()


def _place(cursor: str) -> _Place:
    try:
        match = _CURSOR.fullmatch(base64.b64decode(cursor, altchars=b"-_", validate=True).decode())
    except ValueError:
        match = None
    if match is None:
        raise ValueError(f"{cursor!r} is no cursor of a session list: use nextCursor as it was given.")
    return int(match[1]), match[2]
