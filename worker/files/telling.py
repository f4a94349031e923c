"""Lines of a file as the model is shown them: numbered, decoded, bounded, with what must be known. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worker.files.decoding import UTF8, Encoding, shown
from worker.files.lines import MAX_OCTETS

if TYPE_CHECKING:
    from worker.files.lines import Line, Window

_SHOWN: Final = 2000
"""Characters shown of one line."""


def told(found: Window, encoding: Encoding, original: Encoding | None = None) -> str:
    """The lines as they are shown, and what must be known of the file and of what was left out."""
    if not found.lines:
        return "(The file is empty.)"
    shown_lines = _bounded(found, encoding)
    lines = found.lines[: len(shown_lines)]
    notes: list[str] = []
    last = found.first + len(lines) - 1
    if not found.at_end or len(lines) < len(found.lines):
        of = f" of {found.total}" if found.total is not None else ""
        notes.append(f"lines {found.first}-{last}{of}; read on with start_line={last + 1}")
    ends = {line.data.endswith(b"\r") for line in lines if line.ended}
    if True in ends:
        notes.append("CRLF and LF line ends" if False in ends else "CRLF line ends")
    if any(b"\r" in (line.data[:-1] if line.ended else line.data) for line in lines):
        notes.append("there are carriage returns within lines")
    name = (original or encoding).name
    if name != UTF8.name:
        notes.append(f"decoded from {name}")
    return "\n".join([*shown_lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _bounded(found: Window, encoding: Encoding) -> list[str]:
    """The lines as they are shown, while they are few enough octets: more, perhaps, than in the file."""
    shown_lines: list[str] = []
    octets = 0
    for number, line in enumerate(found.lines, found.first):
        text = f"{number:>6}\t{_shown(line, encoding)}"
        octets += len(text.encode()) + 1
        if shown_lines and octets > MAX_OCTETS:
            break
        shown_lines.append(text)
    return shown_lines


def _shown(line: Line, encoding: Encoding) -> str:
    data = whole_characters(line)
    text = (data.removesuffix(b"\r") if line.ended else data).decode(
        encoding.codec, "surrogateescape" if encoding.codec == "utf-8" else "replace"
    )
    left = line.dropped + len(line.data) - len(data)
    if left or len(text) > _SHOWN:
        left += len(text[_SHOWN:].encode("utf-8", "replace"))
        return f"{shown(text[:_SHOWN])} … [line cut: {left:,} more bytes]"
    return shown(text)


def whole_characters(line: Line) -> bytes:
    """The line's octets, without a UTF-8 character that was cut in two at its end."""
    if not line.dropped:
        return line.data
    for i in range(1, 5):
        octet = line.data[-i]
        if octet >= 0xC0:
            return line.data[:-i]
        if octet < 0x80:
            break
    return line.data
