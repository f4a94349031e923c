"""Changing one file: read, known to the session, changed in text, written whole, told. For edits and writes.

Changes of one file are made one after the other, and each is made to what the one before it left. The
change itself is a plan: a pure function from what the file holds to a `Change`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from worker.boundaries import resolve
from worker.files import knowing
from worker.files.content import Content, content_of, digest, read_up_to
from worker.files.decoding import UTF8, Encoding, detect, read_text
from worker.files.diffs import Region, count_changed, diff_content
from worker.files.editor import same_text, unsaved_key, unsaved_stamp, unsaved_text, written_by_editor
from worker.files.opening import MissingError, Reach, open_file
from worker.files.writing import write_whole
from worker.tools.base import ToolError, ToolOutput

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from worker.tools.base import FileStamp, ToolContext

_EDITABLE = 64 * 2**20
"""Octets; a larger file is no work for a model."""


@dataclass(frozen=True)
class Source:
    """What a plan starts from. `encoding` None is a binary file; `data` None a file that does not exist."""

    data: bytes | None
    encoding: Encoding | None
    unsaved: str | None = None
    """What the editor has in place of `data`."""

    @cached_property
    def text(self) -> str:
        """All of it; empty for a file that is binary or does not exist."""
        if self.unsaved is not None or self.data is None or self.encoding is None:
            return self.unsaved or ""
        return self.encoding.decode(self.data)


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan came to: the old text as it read it, the new one, and how to tell it.

    `encoding` makes bytes of the new text. With `shown_in`, both have a character for each octet, and are
    shown in that encoding.
    """

    old: str
    text: str
    encoding: Encoding
    regions: list[Region]
    told: str
    notes: list[str] = field(default_factory=list)
    shown_in: Encoding | None = None

    def diff(self, path: Path, *, created: bool) -> list[dict[str, Any]]:
        """ACP content for this change of an absolute path."""
        return diff_content(path, None if created else self.old, self.text, self.regions, self._shown)

    def _shown(self, text: str) -> str:
        return text if self.shown_in is None else self.shown_in.decode_part(text.encode(self.encoding.codec))


@dataclass(frozen=True, slots=True)
class _Loaded:
    data: bytes
    stat: os.stat_result
    stamp: str


_turns: dict[Path, tuple[anyio.Lock, list[None]]] = {}


@contextlib.asynccontextmanager
async def _in_turn(path: Path) -> AsyncIterator[None]:
    lock, users = _turns.setdefault(path, (anyio.Lock(), []))
    users.append(None)
    try:
        async with lock:
            yield
    finally:
        users.pop()
        if not users:
            del _turns[path]


async def change_file(
    context: ToolContext, named: Path, plan: Callable[[Source], Change], *, overwrites: bool
) -> ToolOutput:
    """Make the plan's change to the file at an absolute path. Raises ToolError; then nothing was changed.

    `overwrites`: the plan replaces the content unseen, so text that is unsaved in the editor must have
    been read as well. A cancel waits for a write that has begun.
    """
    path = await to_thread.run_sync(resolve, named, abandon_on_cancel=True)
    reach = Reach.of(context, write=True)
    async with _in_turn(path):
        before, on_disk = await to_thread.run_sync(_start, context, path, reach, abandon_on_cancel=True)
        source = on_disk
        unsaved = await unsaved_text(context, path, before.data) if before else None
        if unsaved is not None and context.editor.writes_files:
            if overwrites and context.stamps.get(unsaved_key(path)) != unsaved_stamp(unsaved):
                raise ToolError(
                    f"{path} has changes in the editor that are not saved and were not read. Read it again."
                )
            source = replace(on_disk, encoding=UTF8, unsaved=unsaved)
        change, data = await to_thread.run_sync(_planned, plan, source, abandon_on_cancel=True)
        if before is not None and data == before.data and unsaved is None:
            told = f"{path} has exactly this content already, so it was not written."
            return ToolOutput(told, stamps=[knowing.stamp(path, before.stamp)])
        note = ""
        stamp: str | None
        if await written_by_editor(context, path, data):
            knowing.wrote(context, path, digest(data))
            stamp, note = await to_thread.run_sync(_settle, context, path, data, before, reach)
        else:
            if unsaved is not None:
                change, data = await to_thread.run_sync(_planned, plan, on_disk)
            stamp = await to_thread.run_sync(_write, context, path, data, before, reach)
    # The diff of a large file with long lines takes seconds.
    stamps = _stamps(path, stamp)
    return await to_thread.run_sync(
        partial(_output, named, change, created=before is None, stamps=stamps, note=note)
    )


def preview_change(
    context: ToolContext, named: Path, plan: Callable[[Source], Change]
) -> list[dict[str, Any]]:
    """The diff of a change to what is on the disk, or nothing where it would be refused. Blocking."""
    try:
        before, source = _start(context, resolve(named), None)
        change, _ = _planned(plan, source)
    except (ToolError, OSError, ValueError):
        return []
    return change.diff(named, created=before is None)


def _load_known(context: ToolContext, path: Path, reach: Reach | None) -> _Loaded | None:
    """The file's content, None if there is none. Raises ToolError if the session does not know it."""
    try:
        loaded = _load(path, reach)
    except MissingError:
        return None
    known = knowing.known(context, path)
    if loaded.stamp in known:
        return loaded
    if not known:
        raise ToolError(
            f"{path} exists and was not read in this session, so it was left alone. "
            "Read it with read_file first."
        )
    raise ToolError(
        f"{path} was changed since it was read, so it was left alone. Read it again with read_file."
    )


def _load(path: Path, reach: Reach | None) -> _Loaded:
    with open_file(path, reach) as opened:
        try:
            content: Content = content_of(opened)
            data = content.data if content.data is not None else read_up_to(opened.fd, _EDITABLE)
        except OSError as e:
            raise ToolError(f"{path} cannot be read: {e.strerror or e}.") from e
        if data is None:
            raise ToolError(
                f"{path} is larger than {_EDITABLE // 2**20} MB, too large to change here. "
                "Use bash (sed, for example)."
            )
        return _Loaded(data, opened.stat, content.stamp)


def _start(context: ToolContext, path: Path, reach: Reach | None) -> tuple[_Loaded | None, Source]:
    before = _load_known(context, path, reach)
    return before, Source(before.data, detect(before.data)) if before else Source(None, UTF8)


def _planned(plan: Callable[[Source], Change], source: Source) -> tuple[Change, bytes]:
    change = plan(source)
    try:
        return change, change.encoding.encode(change.text)
    except UnicodeEncodeError as e:
        character = e.object[e.start]
        raise ToolError(
            f"The file is {change.encoding.name}, which has no {character!r} (U+{ord(character):04X}), "
            "so nothing was changed. Use other characters, or convert the file first (bash: iconv)."
        ) from e


def _write(context: ToolContext, path: Path, data: bytes, before: _Loaded | None, reach: Reach) -> str:
    stamp = write_whole(path, data, before.stat if before else None, reach)
    # Here, so that the session knows its own file even if the call is cancelled meanwhile.
    knowing.wrote(context, path, stamp)
    return stamp


def _settle(
    context: ToolContext, path: Path, data: bytes, before: _Loaded | None, reach: Reach
) -> tuple[str | None, str]:
    """What the disk has after the editor wrote: its stamp, and a note if it is not what was asked.

    Line ends and a byte order mark that the editor took for its own are put right.
    """
    try:
        found = _load(path, reach)
    except MissingError:
        return None, " The editor has it, but has not saved it yet."
    if found.data == data:
        return found.stamp, ""
    if before is not None and found.stamp == before.stamp:
        return found.stamp, " The editor has the change, but has not saved it yet."
    saved = read_text(found.data)
    if saved is not None and same_text(saved[1], data.decode()):
        return _write(context, path, data, found, reach), ""
    return None, " The editor saved something else, formatted perhaps: read it again before the next edit."


def _stamps(path: Path, stamp: str | None) -> list[FileStamp]:
    return [knowing.stamp(path, stamp)] if stamp else []


def _output(named: Path, change: Change, *, created: bool, stamps: list[FileStamp], note: str) -> ToolOutput:
    added, removed = count_changed(change.old, change.text, change.regions)
    notes = "".join(f" {text}" for text in change.notes)
    text = f"{change.told} Lines: +{added} -{removed}.{notes}{note}"
    raw = {"output": text, "path": str(named), "added": added, "removed": removed, "created": created}
    return ToolOutput(text, content=change.diff(named, created=created), raw=raw, stamps=stamps)
