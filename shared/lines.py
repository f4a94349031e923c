"""The lines of a session's `history.jsonl`: one record each, as JSON, and back, whatever is in them.

Pure functions over bytes. What records mean to each other is not known here: see `shared.repair`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import MsgspecError, convert
from msgspec.json import Decoder, Encoder
from msgspec.structs import asdict
from pydantic_core import from_json, to_json, to_jsonable_python

from shared.collector import collector_paused
from shared.plain import plain
from shared.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

_encoder: Final = Encoder(enc_hook=to_jsonable_python)
_encode: Final = _encoder.encode
_encode_lines: Final = _encoder.encode_lines
_decode: Final = Decoder[Record](Record).decode
_decode_lines: Final = Decoder[Record](Record).decode_lines
_REFUSED: Final = (MsgspecError, ValueError, TypeError, RecursionError)
"""What the two raise for what JSON cannot carry or is no record."""
_MANY: Final = 200
"""Brackets of a line that may be nested too deeply."""
_MANY_OPENERS: Final = re.compile(rb"[^\n]{%d}" % _MANY)
_NOT_OPENERS: Final = bytes(set(range(256)) - set(b"{[\n"))
_SALVAGED: Final = 32 * 2**20
"""Octets of a bad line that is searched: 300 MB of garbage kept a worker busy until it was taken for hung."""
_RECORD_STARTS: Final = re.compile(rb'(?=\{(?:"kind":"[a-z_]+",)?"epoch":)')
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be read and was set aside. `line` counts from 1; 0 is the file as a whole."""

    line: int
    reason: str
    raw: bytes = field(repr=False)


def parse(data: bytes) -> tuple[list[Record], list[Problem], int]:
    """The records of a history, what is none, and the offset in bytes where the last whole line ends.

    No content raises.
    """
    end = data.rfind(b"\n") + 1
    whole, torn = data[:end], data[end:]
    problems: list[Problem] = []
    with collector_paused():
        records = _sound(whole)
        if records is None:
            records = _readable(whole.split(b"\n")[:-1], problems)
    if torn:
        number = whole.count(b"\n") + 1
        problems.append(Problem(number, "the last line was not written to its end", torn))
    return records, problems, end


def _sound(data: bytes) -> list[Record] | None:
    """All lines as records, or None if one of them is none. In C: there are many."""
    try:
        records = _decode_lines(data)
    except _REFUSED:
        return None
    openers = data.translate(None, _NOT_OPENERS)
    # Blank lines and lines with several records are for `_salvage`.
    if len(records) != openers.count(b"\n") or len(records) != data.startswith(b"{") + data.count(b"\n{"):
        return None
    if _MANY_OPENERS.search(openers) is None:
        return records
    deep = [
        line
        for line, opened in zip(data.split(b"\n"), openers.split(b"\n"), strict=True)
        if len(opened) >= _MANY
    ]
    return records if all(map(_is_shallow, deep)) else None


def _is_shallow(line: bytes) -> bool:
    """Whether pydantic reads and writes it: it goes to 200 levels, msgspec to about 1,000."""
    try:
        from_json(line)
    except ValueError:
        return False
    return True


def _readable(lines: list[bytes], problems: list[Problem]) -> list[Record]:
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(decode(line))
        except ValueError:
            _salvage(line, number, records, problems)
    return records


def decode(line: bytes) -> Record:
    """The record of a line. Raises ValueError, which says what is wrong with it."""
    try:
        record = _decode(line)
    except _REFUSED:
        return _leniently(line)
    if line.count(b"{") + line.count(b"[") >= _MANY:
        from_json(line)
    return record


def _leniently(line: bytes) -> Record:
    """Of a line that was edited by hand, say: a key that comes twice, a number as text, NaN for null."""
    try:
        record: Record = convert(from_json(line), Record, strict=False)
    except _REFUSED as e:
        raise ValueError(str(e)) from e
    if not math.isfinite(record.time):
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
            records.append(decode(text))
        except ValueError as error:
            problems.append(Problem(number, str(error) if text else "filled with NUL bytes", piece))


def encode(record: Record) -> bytes:
    """A record's line. What JSON cannot carry (lone surrogates, endless nesting) is replaced.

    Raises ValueError for a record that cannot be written so that it can be read.
    """
    try:
        line = _encode(record)
        # Read back: what is acknowledged must load. Costs microseconds where the sync costs a millisecond.
        decode(line)
    except _REFUSED:
        line = _encode(plain_record(record))
        decode(line)
    return line + b"\n"


def plain_record(record: Record) -> Record:
    """The record with what JSON cannot carry replaced. Raises ValueError where it is none then."""
    try:
        return convert({"kind": record.kind, **plain(asdict(record))}, type(record))
    except _REFUSED as e:
        raise ValueError(str(e)) from e


def carried(records: Sequence[Record]) -> bool:
    """Whether JSON carries all of them as they are. One pass in C."""
    try:
        return _sound(_encode_lines(records)) is not None
    except _REFUSED:
        return False


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
        return decode(line).kind
    except ValueError:
        return None
