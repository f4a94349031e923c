"""Escape sequences taken out of text that comes in any pieces. Pure; keeps no more than it says.

What proves to be no sequence is given back: a stray escape character must not cost the output after it.
"""

from __future__ import annotations

import re
from typing import Final

_HELD: Final = 4096
"""Characters of an unfinished sequence that can still be given back."""
_LONGEST: Final = 16 * 2**20
"""Characters of a string after which its end is not awaited any more; an image may take some MiB."""

# DCS, SOS, OSC, PM and APC take a string, which BEL or ST ends (ECMA-48 5.6). Images come in OSC 1337
# (iTerm2, base64) and DCS q (sixel): they alone are both long and of several lines, and have no blanks, so
# that the text after one that was cut off is seen to be none.
_IMAGE: Final = r"(?:\]1337;(?:Multipart)?File(?:Part)?=|P[0-9;]*+q)"
_PIXELS: Final = r"[!-~\r\n]"
_BODY: Final = r"[^\x07\x1b\x9b]"
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # CSI: colours, cursor movement (ECMA-48 5.4)
    rf"|\x1b(?:{_IMAGE}{_PIXELS}*+|[\]PX^_](?:[^\x07\x1b\x9b\n]*+|{_BODY}{{0,{_HELD}}}+))(?:\x07|\x1b\\)"
    r"|\x1b[ -/]++[0-~]"  # character sets
    r"|\x1b[0-OQ-WYZ\\`-~]"  # two-character functions
)
_UNFINISHED: Final = re.compile(
    rf"(?:(?:\x1b\[|\x9b)[0-?]*+[ -/]*+|\x1b(?:[\]PX^_]{_BODY}*+\x1b?|[ -/]*+))\Z"
)
_IMAGE_START: Final = re.compile(rf"\x1b{_IMAGE}{_PIXELS}*+\x1b?\Z")
_STRING_START: Final = re.compile(r"\x1b[\]PX^_]")
_IMAGE_END: Final = re.compile(r"[^!-~\r\n]")
_STRING_END: Final = re.compile(r"[\x07\x1b\x9b\n]")


class Escapes:
    """Takes text in pieces and gives it back without escape sequences."""

    def __init__(self) -> None:
        self._held = ""
        """The start of a sequence that is not complete."""
        self._passed: int | None = None
        """Within a long string: how many characters after `_held` were not kept."""
        self._last = ""
        """An escape character that may begin the long string's end."""

    @property
    def unfinished(self) -> bool:
        """Whether the next piece may begin within a sequence."""
        return bool(self._held)

    def remove(self, text: str) -> str:
        """`text` without what is, or may become, an escape sequence."""
        stray = ""
        if self._passed is not None:
            stray, text = self._pass_over(self._last + text)
            if self._passed is not None:
                return ""
        text, self._held = self._held + text, ""
        if "\x1b" not in text and "\x9b" not in text:
            return stray + text
        # Only what is introduced last can be unfinished; a last character may begin the end of a string.
        last = max(text.rfind(introducer, 0, len(text) - 1) for introducer in "\x1b\x9b")
        unfinished = _UNFINISHED.match(text, max(0, last)) or _UNFINISHED.match(text, len(text) - 1)
        if unfinished:
            text, self._held = text[: unfinished.start()], unfinished.group()
        text = stray + _SEQUENCE.sub("", text)
        if len(self._held) > _HELD:
            text += self._shorten()
        return text

    def finish(self) -> str:
        """What was held back, as it came: at the end of the text nothing completes it."""
        given_back = self._held
        if self._passed is not None:
            given_back += f"[{self._passed:,} characters left out of an escape sequence without end]"
        self._held, self._passed, self._last = "", None, ""
        return given_back

    def _shorten(self) -> str:
        """From now on keep only the start of a long string; what is none is given back."""
        string = _IMAGE_START.match(self._held) or (
            _STRING_START.match(self._held) and "\n" not in self._held
        )
        if not string:
            return self.finish()
        self._last = "\x1b" if self._held.endswith("\x1b") else ""
        self._passed = len(self._held) - len(self._last) - _HELD
        self._held = self._held[:_HELD]
        return ""

    def _pass_over(self, text: str) -> tuple[str, str]:
        """What is given back of the long string, and what follows it."""
        assert self._passed is not None
        end = (_IMAGE_END if _IMAGE_START.match(self._held) else _STRING_END).search(text)
        at = end.start() if end else len(text)
        self._passed += at
        self._last = rest = text[at:]
        if rest == "\x1b" or (not rest and self._passed <= _LONGEST):
            return "", ""
        if rest.startswith(("\x07", "\x1b\\")):
            self._held, self._passed, self._last = "", None, ""
            return "", rest[1:] if rest[0] == "\x07" else rest[2:]
        return self.finish(), rest
