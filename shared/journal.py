"""A session's `history.jsonl`: reading it whatever happened to it, and appending so that it is durable.

One record a line. Written by the session's worker alone; anyone may read. Blocking: call from a
thread. What records mean to each other is not known here: see `shared.repair`.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from shared.collector import collector_paused
from shared.durable import read_file, replace_file, sync_folder, write_all
from shared.faults import fault_point
from shared.plain import plain
from shared.records import RECORD, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HISTORY: Final = "history.jsonl"
SET_ASIDE: Final = "history.bad.jsonl"

_sync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)
# The bare validator: 107 ms for 50,000 lines, where the adapter's own method takes 152.
_validate: Final[Callable[[bytes], Record]] = RECORD.validator.validate_json
_SALVAGED: Final = 32 * 2**20
"""Octets of a bad line that is searched: 300 MB of garbage kept a worker busy until it was taken for hung."""
_RECORD_STARTS: Final = re.compile(rb'(?=\{"epoch":)')
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be read and was set aside. `line` counts from 1; 0 is the file as a whole."""

    line: int
    reason: str
    raw: bytes = field(repr=False)


def read(path: Path) -> tuple[list[Record], list[Problem], int]:
    """The records that can be read, what cannot, and the offset in bytes where the last whole line ends.

    No content raises. Raises OSError for a file that cannot be read; one that is missing is a problem.
    """
    fault_point("journal.read")
    try:
        data = read_file(path)
    except FileNotFoundError:
        return [], [Problem(0, f"{path} is missing: the conversation starts empty.", b"")], 0
    *lines, torn = data.split(b"\n")
    problems: list[Problem] = []
    with collector_paused():
        records = _sound(lines)
        if records is None:
            records = _readable(lines, problems)
    if torn:
        problems.append(Problem(len(lines) + 1, "the last line was not written to its end", torn))
    return records, problems, len(data) - len(torn)


def _sound(lines: list[bytes]) -> list[Record] | None:
    """All lines as records, or None if one of them is none. Nothing else in the loop: there are many."""
    records: list[Record] = []
    times = 0.0
    try:
        for line in lines:
            record = _validate(line)
            times += record.time
            records.append(record)
    except ValidationError:
        return None
    return records if math.isfinite(times) else None


def _readable(lines: list[bytes], problems: list[Problem]) -> list[Record]:
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(_record(line))
        except ValueError:
            _salvage(line, number, records, problems)
    return records


def _record(line: bytes) -> Record:
    record = _validate(line)
    if not math.isfinite(record.time):
        # JSON writes it as null, so that it would be lost at the next load.
        raise ValueError("its time is not a number")
    return record


def _salvage(line: bytes, number: int, records: list[Record], problems: list[Problem]) -> None:
    """Take what is sound from a line that is no record: records glued to torn ones, or to NULs."""
    if len(line) > _SALVAGED and line.strip(b"\0"):
        problems.append(Problem(number, "too long to look for records in it", line))
        return
    for piece in _RECORD_STARTS.split(line):
        text = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], piece.strip(b"\0 \t\r"))
        if not text and b"\0" not in piece:
            continue
        try:
            records.append(_record(text))
        except ValidationError as error:
            reason = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
            problems.append(Problem(number, reason if text else "filled with NUL bytes", piece))
        except ValueError as error:
            problems.append(Problem(number, str(error), piece))


def encode(record: Record) -> bytes:
    """A record's line. What JSON cannot carry (lone surrogates, endless nesting) is replaced.

    Raises ValueError for a record that cannot be written so that it can be read.
    """
    try:
        line = to_json(record)
        # Read back: what is acknowledged must load. Costs microseconds where the sync costs a millisecond.
        _validate(line)
    except ValueError:
        line = to_json(RECORD.validate_python(plain(record.__dict__)))
        _validate(line)
    return line + b"\n"


def finished_turns(data: bytes) -> bytes:
    """The lines of a history up to its last turn's end, without grants: what a fork begins with."""
    lines = data.split(b"\n")[:-1]
    while lines and _kind(lines[-1], b"turn_end") != "turn_end":
        lines.pop()
    return b"".join(line + b"\n" for line in lines if _kind(line, b"grant") != "grant")


def renamed_in_results(data: bytes, old: str, new: str) -> bytes:
    """The lines with `old` replaced in results. Replies stay: thinking is signed as it is."""
    old_text, new_text = to_json(old)[1:-1], to_json(new)[1:-1]
    if old_text not in data:
        return data
    return b"\n".join(
        line.replace(old_text, new_text) if _kind(line, b"tool_result") == "tool_result" else line
        for line in data.split(b"\n")
    )


def _kind(line: bytes, hint: bytes) -> object:
    """A record's kind, where the line has `hint` in it; few have, so few are parsed."""
    if hint not in line:
        return None
    try:
        fields = from_json(line)
    except ValueError:
        return None
    return fields.get("kind") if isinstance(fields, dict) else None


class Journal:
    """The history of one session, held by the one process that writes it. Safe to call from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._end: int | None = None
        self._unkept: list[bytes] = []
        self._lock = threading.Lock()

    def load(self) -> tuple[list[Record], list[Problem]]:
        """All records, and what was set aside: that is copied, once, to `history.bad.jsonl`.

        Raises OSError when the file cannot be read.
        """
        with self._lock:
            records, problems, self._end = read(self._path)
            self._unkept = [problem.raw for problem in problems if problem.raw]
            # On a full or read-only disk a history still loads; `replace` insists on the copy.
            with contextlib.suppress(OSError):
                self._keep_bad_lines()
            return records, problems

    def append(self, records: Sequence[Record]) -> None:
        """Add records; on return they are durable, all of them.

        Raises OSError when the disk did not take them: then none is in the history, and a later
        append works again once the disk does.
        """
        data = b"".join(map(encode, records))
        if not data:
            return
        with self._lock:
            fd = self._opened()
            end = self._settled(fd)
            try:
                fault_point("journal.append")
                write_all(fd, data)
                fault_point("journal.written")
                _sync(fd)
                fault_point("journal.synced")
            except OSError:
                # Where even this fails, the next append begins with it.
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, end)
                raise
            self._end = end + len(data)

    def replace(self, records: Sequence[Record]) -> None:
        """Put these records in place of the whole file, at once; what was set aside is kept first.

        Raises OSError; then the old file is there.
        """
        data = b"".join(map(encode, records))
        with self._lock:
            self._keep_bad_lines()
            self._forget()
            replace_file(self._path, data)
            self._end = len(data)

    def close(self) -> None:
        """Release the file. A later append opens it again."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._end = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        if self._fd is None:
            # Not blocking, so that a FIFO in its place is an error of the first write and no wait.
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
            try:
                self._fd = os.open(self._path, flags)
            except FileNotFoundError:
                self._fd = os.open(self._path, flags | os.O_CREAT, 0o600)
                sync_folder(self._path.parent)
        return self._fd

    def _settled(self, fd: int) -> int:
        """Cut what a killed or failed append left behind; where the next one begins."""
        size = os.fstat(fd).st_size
        if self._end is None or size < self._end:
            # Not loaded yet, or made shorter by someone else: find the last whole line anew.
            self._end = read_file(self._path).rfind(b"\n") + 1
        if size > self._end:
            os.ftruncate(fd, self._end)
        return self._end

    def _keep_bad_lines(self) -> None:
        kept = self._path.with_name(SET_ASIDE)
        lines = read_file(kept).split(b"\n") if kept.exists() else [b""]
        fresh = [raw for raw in dict.fromkeys(self._unkept) if raw not in set(lines)]
        if fresh:
            fd = os.open(kept, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                write_all(fd, b"".join([b"\n" if lines[-1] else b"", *(raw + b"\n" for raw in fresh)]))
                os.fsync(fd)
            finally:
                os.close(fd)
        self._unkept = []
