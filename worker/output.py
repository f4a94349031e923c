"""Program output made readable: bytes in any pieces to clean text, and text bounded to head and tail.

Pure; keeps no more than it says. Used for what a model, a client and the spill file get to see.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from typing import Final

from worker.escapes import Escapes

PENDING: Final = 8192
"""Characters of an unfinished line that are held back, so that a carriage return can still take it back."""

_OVERSTRUCK: Final = re.compile(r"[^\n\x08]\x08")
# The lookbehind keeps a long run of returns linear.
_RETURNS: Final = re.compile(r"(?<!\r)\r+\n")
# NUL to US and DEL are shown as their pictures, C1 controls as U+FFFD; tab, line feed and return stay.
_PICTURES: Final = {code: chr(0x2400 + code) for code in range(32) if code not in (9, 10, 13)} | {
    0x7F: "\u2421"
}
_CONTROL_BYTES: Final = bytes(_PICTURES) + b"\xc2"
_C1: Final = re.compile("[\x80-\x9f]")


class Cleaner:
    """Turns output bytes into text as they come.

    UTF-8, U+FFFD for what is none; escape sequences removed; a line rewritten by carriage returns
    collapsed to its last state; other control characters made visible.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._escapes = Escapes()
        self.pending = ""
        """The unfinished last line, as it stands."""

    def feed(self, data: bytes | bytearray) -> str:
        """The text that has become final."""
        # bytes.translate finds out in 0.1 ms per MiB that plain text needs no more work.
        plain = len(data.translate(None, _CONTROL_BYTES)) == len(data)
        plain = plain and not self._escapes.unfinished and not self._decoder.getstate()[0]
        text = self._decoder.decode(data)
        if not plain:
            text = self._escapes.remove(text)
        text = self.pending + text
        if "\x08" in text:
            text = _OVERSTRUCK.sub("", text)
        if not plain:
            text = visible(text)
        if "\r" in text:
            text = text.replace("\r\n", "\n")
            if "\r" in text:
                text = _collapse(text)
        final, newline, self.pending = text.rpartition("\n")
        if len(self.pending) > PENDING:
            self.pending, rest = "", self.pending.rstrip("\r")
            return final + newline + rest
        return final + newline

    def finish(self) -> str:
        """The rest, at the end of the output."""
        text = self.pending + visible(self._escapes.finish()) + self._decoder.decode(b"", final=True)
        self.pending = ""
        return _collapse(text).rstrip("\r")


def visible(text: str) -> str:
    """Control characters made visible. One replace per kind is 10 times as fast as str.translate."""
    for code, picture in _PICTURES.items():
        text = text.replace(chr(code), picture)
    return _C1.sub("\ufffd", text)


def _collapse(text: str) -> str:
    """Each line as it looks after its carriage returns; the last line keeps a return at its end."""
    lines = _RETURNS.sub("\n", text).split("\n")
    last = lines.pop()
    shown = [line.rpartition("\r")[2] for line in lines]
    stem = last.rstrip("\r")
    shown.append(stem.rpartition("\r")[2] + ("\r" if stem != last else ""))
    return "\n".join(shown)


class HeadTail:
    """Keeps the first and the last characters of a text of any length."""

    def __init__(self, head: int, tail: int) -> None:
        self._room = head
        self._tail_size = tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self.dropped = 0
        """Characters lost between head and tail."""

    def add(self, text: str) -> None:
        """Append."""
        if self._room:
            self._head.append(text[: self._room])
            text, self._room = text[self._room :], max(0, self._room - len(text))
        if not text:
            return
        if len(text) > self._tail_size:
            self.dropped += len(text) - self._tail_size
            text = text[-self._tail_size :]
        self._tail.append(text)
        self._tail_length += len(text)
        while self._tail_length > self._tail_size:
            excess = self._tail_length - self._tail_size
            first = self._tail.popleft()
            if len(first) > excess:
                self._tail.appendleft(first[excess:])
            self.dropped += min(excess, len(first))
            self._tail_length -= min(excess, len(first))

    def text(self, where: str = "", late: str = "", skipped: int = 0) -> str:
        """Head, a marker with the number of characters left out (and `where` they are), tail.

        `late` is text that followed but was not added, after `skipped` further characters.
        """
        dropped, tail = self.dropped, "".join(self._tail)
        if skipped:
            dropped, tail = dropped + len(tail) + skipped, ""
        tail += late
        dropped += max(0, len(tail) - self._tail_size)
        tail = tail[-self._tail_size :]
        marker = f"\n\n[{dropped:,} characters left out{where}]\n\n" if dropped else ""
        return "".join((*self._head, marker, tail))
