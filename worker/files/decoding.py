"""Bytes of a file as text, and back again without loss. Pure.

An `Encoding` maps every byte of the file that it was detected for to text and back, so a change that is made
in text, or in octets where those find the same, changes nothing but what it was asked to change.
"""

from __future__ import annotations

import codecs
import mimetypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE: Final = 2**16
_NOT_WINDOWS_1252: Final = b"\x81\x8d\x8f\x90\x9d"
_SNIFFED = 8192
"""A NUL among the first octets means binary; git looks at about as many."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes are text. `bom` is at its start and never shown."""

    name: str
    codec: str
    errors: str = "strict"
    bom: bytes = b""

    def decode(self, data: bytes) -> str:
        """All of a file as text, without its byte order mark."""
        return data[len(self.bom) :].decode(self.codec, self.errors)

    def decode_part(self, data: bytes) -> str:
        """Some of a file, from the start of a character on, as text to be shown."""
        return data.decode(self.codec, self.errors)

    def encode(self, text: str) -> bytes:
        """The inverse of `decode`. Raises UnicodeEncodeError for a character that the encoding lacks."""
        return self.bom + text.encode(self.codec, self.errors)

    @property
    def octets(self) -> Encoding | None:
        """The same bytes with a character for each octet; None where that finds text that is not there.

        A character of UTF-8 begins nowhere within another, also between invalid bytes.
        """
        if self.codec in ("utf-8", "cp1252", "latin-1"):
            return Encoding(self.name, "latin-1", bom=self.bom)
        return None


UTF8: Final = Encoding("UTF-8", "utf-8")
UTF8_BROKEN: Final = Encoding("UTF-8 with invalid bytes", "utf-8", "surrogateescape")
WINDOWS_1252: Final = Encoding("Windows-1252", "cp1252")
LATIN_1: Final = Encoding("ISO-8859-1", "latin-1")

_BY_BOM: Final = (
    # UTF-32 LE first: its mark begins with that of UTF-16 LE.
    Encoding("UTF-32 LE", "utf-32-le", "surrogatepass", codecs.BOM_UTF32_LE),
    Encoding("UTF-32 BE", "utf-32-be", "surrogatepass", codecs.BOM_UTF32_BE),
    Encoding("UTF-16 LE", "utf-16-le", "surrogatepass", codecs.BOM_UTF16_LE),
    Encoding("UTF-16 BE", "utf-16-be", "surrogatepass", codecs.BOM_UTF16_BE),
)


def is_wide(head: bytes) -> bool:
    """Whether a file that begins so is UTF-16 or UTF-32, whose lines are not found by a newline octet."""
    return any(head.startswith(encoding.bom) for encoding in _BY_BOM)


def read_text(data: bytes) -> tuple[Encoding, str] | None:
    """How all of a file's bytes are text, and that text; or None for a binary file: see `detect`."""
    encoding = detect(data)
    return None if encoding is None else (encoding, encoding.decode(data))


def detect(data: bytes) -> Encoding | None:
    """How all of a file's bytes are text, or None for a binary file.

    What is not UTF-8 is taken for UTF-8 with damage if most of its non-ASCII is valid UTF-8, else for
    Windows-1252, else for ISO-8859-1, which gives every octet a character.
    """
    for encoding in _BY_BOM:
        if data.startswith(encoding.bom):
            return encoding if _is_lossless(encoding, data) else None
    if b"\0" in data[:_SNIFFED] or _magic(data) is not None:
        return None
    encoding = Encoding("UTF-8", "utf-8", bom=codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else UTF8
    try:
        for _ in _pieces(data, "strict"):
            pass
    except UnicodeDecodeError:
        return _damaged(data, encoding.bom)
    return encoding


def _pieces(data: bytes, errors: str) -> Iterator[str]:
    """The bytes as UTF-8. Three times as fast as all at once, where the text is not ASCII."""
    decode = codecs.getincrementaldecoder("utf-8")(errors).decode
    for start in range(0, len(data), _PIECE):
        yield decode(data[start : start + _PIECE])
    yield decode(b"", final=True)


def _damaged(data: bytes, bom: bytes) -> Encoding:
    valid_octets = ascii_octets = characters = 0
    for text in _pieces(data, "ignore"):
        characters += len(text)
        valid_octets += len(text.encode())
        ascii_octets += len(text.encode("ascii", "ignore"))
    if bom or characters - ascii_octets > len(data) - valid_octets:
        return Encoding(UTF8_BROKEN.name, UTF8_BROKEN.codec, UTF8_BROKEN.errors, bom)
    return LATIN_1 if any(octet in data for octet in _NOT_WINDOWS_1252) else WINDOWS_1252


def _is_lossless(encoding: Encoding, data: bytes) -> bool:
    try:
        return encoding.encode(encoding.decode(data)) == data
    except UnicodeError:
        return False


def alternatives(encoding: Encoding, data: bytes) -> list[Encoding]:
    """Other readings under which text typed for the file may be found in it: none for valid UTF-8."""
    if encoding in (WINDOWS_1252, LATIN_1):
        return [UTF8_BROKEN]
    if encoding.errors == "surrogateescape" and not encoding.bom:
        return [LATIN_1 if any(octet in data for octet in _NOT_WINDOWS_1252) else WINDOWS_1252]
    return []


def shown(text: str) -> str:
    """Decoded text as it may be shown: invalid octets as `\\xNN`, a NUL as U+2400, no lone surrogate."""
    if text.isascii():
        return text.replace("\0", "\u2400")
    text = re.sub("[\udc80-\udcff]", lambda m: f"\\x{ord(m[0]) - 0xDC00:02x}", text)
    return re.sub("[\ud800-\udfff]", "\ufffd", text).replace("\0", "\u2400")


_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document, a JAR, a wheel)"),
    (b"\x1f\x8b", "gzip data"),
    *((b"BZh%d1AY&SY" % level, "bzip2 data") for level in range(1, 10)),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x7fELF", "an ELF executable or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O executable or library"),
    (b"MZ\x90\0", "a Windows executable"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0asm", "a WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "a Java class"),
    (b"OggS", "Ogg media"),
    (b"fLaC", "FLAC audio"),
    (b"ID3\x03", "MP3 audio"),
    (b"ID3\x04", "MP3 audio"),
    (b"wOF2", "a web font"),
)


def _magic(data: bytes) -> str | None:
    return next((name for magic, name in _MAGIC if data.startswith(magic)), None)


def describe_binary(head: bytes, name: str) -> str:
    """What a binary file is, by its first octets, else by its name."""
    if head.startswith(b"RIFF") and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return {b"WEBP": "a WebP image", b"WAVE": "WAVE audio", b"AVI ": "an AVI video"}[head[8:12]]
    if head[4:8] == b"ftyp":
        return "MP4 media"
    if head[257:262] == b"ustar":
        return "a tar archive"
    by_name = mimetypes.guess_type(name)[0]
    return _magic(head) or (f"binary ({by_name})" if by_name else "binary data")
