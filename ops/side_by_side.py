"""Two sessions' text in two columns, as it streams; plain text, so that it reads the same in a file."""

from __future__ import annotations

import textwrap
import time
from itertools import zip_longest
from typing import Any

_WIDTH = 36
_ROW_EVERY = 0.4
"""Seconds of streaming that make a row."""


class SideBySide:
    """Columns by session id, each with its heading. `take` every message, `end` at last."""

    def __init__(self, headings: dict[str, str]) -> None:
        self._columns = dict.fromkeys(headings, "")
        self._due = time.monotonic() + _ROW_EVERY
        self._print([f"session {heading}" for heading in headings.values()])
        self._print(["─" * _WIDTH for _ in headings])

    def take(self, message: dict[str, Any]) -> None:
        """Note the text in a message, and print a row if it is time."""
        params = message.get("params", {})
        update = params.get("update", {})
        session = params.get("sessionId")
        if session in self._columns and update.get("sessionUpdate") == "agent_message_chunk":
            self._columns[session] += update["content"]["text"]
        if time.monotonic() >= self._due:
            self._flush()

    def across(self, text: str) -> None:
        """A line over both columns."""
        self._flush()
        print(f"  ━━ {text} ━━")

    def end(self) -> None:
        """Print what is left."""
        self._flush()

    def _flush(self) -> None:
        self._due = time.monotonic() + _ROW_EVERY
        wrapped = [textwrap.wrap(" ".join(text.split()), _WIDTH) for text in self._columns.values()]
        for cells in zip_longest(*wrapped, fillvalue=""):
            self._print(list(cells))
        self._columns = dict.fromkeys(self._columns, "")

    def _print(self, cells: list[str]) -> None:
        print("  " + " │ ".join(f"{cell:{_WIDTH}}" for cell in cells).rstrip(), flush=True)
