"""A bounded window of a file's lines, found without reading more than it takes. Blocking: for threads.

Lines end with a newline octet. Nothing here knows encodings: UTF-16 is converted before it comes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from worker.tools.base import ToolError

MAX_LINES: Final = 2000
MAX_OCTETS: Final = 100_000
"""Of a window, about 25,000 tokens."""
MAX_LINE: Final = 8000
"""Octets kept of one line; 2,000 characters are shown, of at most 4 octets each."""
SCANNED: Final = 256 * 2**20
"""Octets looked through for the start of a line; about 0.2 s."""
_CHUNK: Final = 2**20
_COUNTED: Final = 64 * 2**20
"""Files up to this size have their lines counted to the end."""

At = Callable[[int, int], bytes]
"""Octets of the file: offset and length to bytes, fewer only at the end."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its newline. `dropped` octets at its end were left out.

    `ended`: it has a newline, which is known only where nothing was left out.
    """

    data: bytes
    dropped: int
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Lines from number `first` on. `total` is the number of lines in the file, if it was counted."""

    first: int
    lines: list[Line]
    total: int | None
    at_end: bool
    """The window reaches the end of the file."""


def window(at: At, size: int, first: int, last: int | None) -> Window:
    """Lines `first` to `last` (1-based, inclusive), at most `MAX_LINES` and `MAX_OCTETS` of them.

    No lines is an empty file. Raises ToolError for a start past the end, and where the start lies too deep
    in a huge file.
    """
    total = count_lines(at, size) if size <= _COUNTED else None
    if total is not None and first > max(total, 1):
        raise _past_the_end(total, first)
    offset: int | None = _offset_of(at, first)
    at = _buffered(at, offset or 0)
    wanted = MAX_LINES if last is None else min(last - first + 1, MAX_LINES)
    lines: list[Line] = []
    octets = 0
    at_end = False
    while len(lines) < wanted and octets < MAX_OCTETS and offset is not None:
        line, following = _line(at, offset)
        if line is None:
            if not lines and first > 1:
                raise _past_the_end(first - 1, first)
            at_end = True
            break
        shown = len(line.data) + 8
        if lines and octets + shown > MAX_OCTETS:
            break
        octets += shown
        lines.append(line)
        offset = following
    return Window(first, lines, total, at_end or (offset is not None and not at(offset, 1)))


def _buffered(at: At, start: int) -> At:
    """`at` with one read for all lines of a usual window: 2,000 reads of a large file take 6 ms."""
    block = at(start, MAX_OCTETS + 2 * MAX_LINE)

    def buffered(offset: int, length: int) -> bytes:
        index = offset - start
        if index >= 0 and index + length <= len(block):
            return block[index : index + length]
        return at(offset, length)

    return buffered


def _past_the_end(total: int, first: int) -> ToolError:
    return ToolError(f"The file has {total} lines; start_line {first} is past its end.")


def count_lines(at: At, size: int) -> int:
    """Lines in a file; a last one without a newline counts."""
    lines = offset = 0
    last = b"\n"
    while offset < size and (chunk := at(offset, _CHUNK)):
        lines += chunk.count(b"\n")
        last = chunk[-1:]
        offset += len(chunk)
    return lines + (last != b"\n")


def _offset_of(at: At, number: int) -> int:
    """Where line `number` starts."""
    missing, offset = number - 1, 0
    last = b"\n"
    while missing > 0:
        chunk = at(offset, _CHUNK)
        if not chunk:
            raise _past_the_end(number - 1 - missing + (last != b"\n"), number)
        if offset > SCANNED:
            raise ToolError(
                f"Line {number} lies more than {SCANNED // 2**20} MB into the file. "
                "Find what you look for with grep, or cut the file with bash (tail -c, dd)."
            )
        found = chunk.count(b"\n")
        if found >= missing:
            return offset + _after_newline(chunk, missing)
        missing -= found
        last = chunk[-1:]
        offset += len(chunk)
    return offset


def _after_newline(chunk: bytes, number: int) -> int:
    """The index after the `number`-th newline of a chunk. Halving: 10 times faster than to find each."""
    start, end = 0, len(chunk)
    while end - start > 4096:
        middle = (start + end) // 2
        found = chunk.count(b"\n", start, middle)
        if found >= number:
            end = middle
        else:
            number -= found
            start = middle
    for _ in range(number):
        start = chunk.index(b"\n", start) + 1
    return start


def _line(at: At, offset: int) -> tuple[Line | None, int | None]:
    """The line at `offset` (None at the end of the file), and where the next one starts (None: too far)."""
    head = at(offset, MAX_LINE + 1)
    if not head:
        return None, offset
    end = head.find(b"\n")
    if end >= 0:
        return Line(head[:end], 0, ended=True), offset + end + 1
    if len(head) <= MAX_LINE:
        return Line(head, 0), offset + len(head)
    scan = offset + len(head)
    while scan - offset < SCANNED and (chunk := at(scan, _CHUNK)):
        end = chunk.find(b"\n")
        if end >= 0:
            return Line(head[:MAX_LINE], scan + end - offset - MAX_LINE), scan + end + 1
        scan += len(chunk)
    following = scan if scan - offset < SCANNED else None
    return Line(head[:MAX_LINE], scan - offset - MAX_LINE), following
