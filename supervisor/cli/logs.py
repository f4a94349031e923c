"""`iac-code logs`: the JSON lines of all processes in readable form, oldest first, across rotated files."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from shared import paths
from shared.logs import FILE_NAME
from supervisor.cli.failure import CommandError
from supervisor.cli.terminal import console, harmless

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_LEVEL_STYLES: Final = {"warning": "yellow", "error": "red", "critical": "bold red", "debug": "dim"}
_HEAD: Final = ("time", "level", "process", "pid", "session", "message")
_LOOK_AGAIN: Final = 0.25
"""Seconds. Files cannot be awaited portably, and a person does not notice a quarter of a second."""


def run(session: str | None, *, follow: bool) -> int:
    """Print the log; with `follow` until Ctrl-C. Raises CommandError where there is none."""
    folder = paths.logs_dir()
    screen = console()
    if not follow and not folder.is_dir():
        raise CommandError(f"Nothing was logged yet in {folder}.")
    for line in _lines(folder, follow=follow):
        text = shown(line, session)
        if text is not None:
            screen.print(text, soft_wrap=True)
    return 0


def _lines(folder: Path, *, follow: bool) -> Iterator[bytes]:
    current = folder / FILE_NAME
    for older in sorted(folder.glob(f"{FILE_NAME}.*"), key=_age, reverse=True):
        yield from older.read_bytes().splitlines()
    if not follow:
        if current.exists():
            yield from current.read_bytes().splitlines()
        return
    yield from _tail(current)


def _age(path: Path) -> int:
    number = path.name.rpartition(".")[2]
    return int(number) if number.isdigit() else 0


def _tail(path: Path) -> Iterator[bytes]:
    """Lines of the file as they are written, and of each that takes its place when it is rotated."""
    file: BinaryIO | None = None
    rest = b""
    while True:
        if file is None and path.exists():
            file = path.open("rb")
        if file is not None:
            *ended, rest = (rest + file.read()).split(b"\n")
            yield from ended
            if not _is(file, path):
                # Rotated; what was written between the two looks is still to be read.
                yield from (rest + file.read()).splitlines()
                file.close()
                file, rest = None, b""
                continue
        time.sleep(_LOOK_AGAIN)


def _is(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def shown(line: bytes, session: str | None) -> Text | None:
    """A line for a person, or None if it is not about `session`. What is no record is shown as it is."""
    entry = _entry(line)
    if session is not None and (entry is None or entry.get("session") != session):
        return None
    if entry is None:
        return Text(harmless(line.decode(errors="replace")))
    level = str(entry.get("level", ""))
    who = f"{entry.get('process', '?')} {entry.get('pid', '?')}"
    if entry.get("session") and session is None:
        who += f" {entry['session']}"
    more = " ".join(
        f"{key}={value}" for key, value in entry.items() if key not in _HEAD and key != "traceback"
    )
    text = Text.assemble(
        (harmless(str(entry.get("time", ""))), "dim"),
        " ",
        (f"{harmless(level):8}", _LEVEL_STYLES.get(level, "")),
        (f" {harmless(who)}: ", "cyan"),
        harmless(str(entry.get("message", ""))),
        (f" {harmless(more)}" if more else "", "dim"),
    )
    if "traceback" in entry:
        text.append("\n" + harmless(str(entry["traceback"])), style="dim")
    return text


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "message" in entry else None
