"""`iac-code ps`: what each running agent of this user says of itself, over its control socket."""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

from shared import paths
from supervisor.cli.terminal import console, harmless

if TYPE_CHECKING:
    from pathlib import Path

SOCKET_NAME: Final = "ps.sock"
_ANSWER_WITHIN: Final = 2.0
"""Seconds. A front answers in milliseconds; one that is stopped must not hang the command."""


def run(*, as_json: bool) -> int:
    """Print the table, or the list of all answers as JSON."""
    fronts = [
        answer
        for folder in sorted(paths.runtime_root().glob("*/"))
        if (answer := query(folder / SOCKET_NAME))
    ]
    if as_json:
        print(json.dumps(fronts, ensure_ascii=False))
        return 0
    screen = console()
    if not fronts:
        screen.print("Nothing is running.")
    for front in fronts:
        _print_front(front)
    return 0


def query(path: Path) -> dict[str, Any] | None:
    """What the front behind the socket says; None if there is none any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_WITHIN)
        try:
            connection.connect(str(path))
            parts: list[bytes] = []
            while part := connection.recv(65536):
                parts.append(part)
            answer = json.loads(b"".join(parts))
        except TimeoutError:
            print(f"iac-code: {path.parent} does not answer; its agent is stopped or hangs.", file=sys.stderr)
            return None
        except (OSError, ValueError):
            # Refused, gone, or closed half-way: a front that has ended, or is ending.
            return None
    return answer if isinstance(answer, dict) else None


def _print_front(front: dict[str, Any]) -> None:
    screen = console()
    zygote = front.get("zygote") or {}
    screen.print(
        f"[bold]agent {front['pid']}[/]  version {front['version']}, up {age(front['started'])}, "
        f"{front['connections']} connection(s), zygote {zygote.get('pid', '–')}"
    )
    table = Table(box=box.SIMPLE_HEAD if screen.is_terminal else None, pad_edge=False)
    for name in (
        "session",
        "state",
        "pid",
        "epoch",
        "restarts",
        "memory",
        "cpu",
        "background",
        "title",
        "folder",
    ):
        right = name in {"pid", "epoch", "restarts", "memory", "cpu", "background"}
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "title")
    table.add_column("last death")
    for session in front["sessions"]:
        table.add_row(*(harmless(cell).replace("[", "\\[") for cell in row(session)))
    screen.print(table)


def row(session: dict[str, Any]) -> list[str]:
    """The cells of a session, in the table's order."""
    uss, cpu = session.get("uss"), session.get("cpu")
    background = session.get("background")
    return [
        session["sessionId"],
        session["state"],
        str(session.get("pid") or "–"),
        str(session.get("epoch", "–")),
        str(session.get("restarts", 0)),
        f"{uss / 2**20:.1f} MB" if uss else "–",
        f"{cpu:.1f} s" if cpu is not None else "–",
        str(len(background) if isinstance(background, list) else background or 0),
        session.get("title") or "",
        session.get("cwd") or "",
        str(session.get("lastDeath") or ""),
    ]


def age(started: float) -> str:
    """How long ago `started` (seconds since 1970) was, in the two largest units."""
    seconds = max(int(time.time() - started), 0)
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"
