"""What all commands that print share: consoles, and text made harmless for a terminal."""

from __future__ import annotations

import re
import sys
from typing import Final

from rich.console import Console

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """`text` without control characters other than newline and tab.

    What a model, a file or a tool said could otherwise move the cursor, rewrite what the person was
    asked to allow, or set the clipboard.
    """
    return _CONTROL.sub("", text)


def console(*, stderr: bool = False) -> Console:
    """A console for people; without a terminal it writes plain text and never cuts a line."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 10_000)
