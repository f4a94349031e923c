"""`iac-code ps`: what each running agent of this user says of itself, over its control socket."""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from shared import paths
from supervisor.cli.terminal import console, harmless

if TYPE_CHECKING:
    from pathlib import Path

SOCKET_NAME: Final = "ps.sock"
_ID_WIDTH: Final = 36
"""Columns of a session id of ours, a UUID."""
_ANSWER_WITHIN: Final = 2.0
"""Seconds. A front answers in milliseconds; one that is stopped must not hang the command."""


def run(*, as_json: bool) -> int:
    """Print the table, or the list of all answers as JSON."""
    fronts = ask_all({}, _ANSWER_WITHIN)
    if as_json:
        print(json.dumps(fronts, ensure_ascii=False))
        return 0
    screen = console()
    if not fronts:
        screen.print("Nothing is running.")
    for front in fronts:
        _print_front(front)
    return 0


def ask_all(request: dict[str, Any], within: float) -> list[dict[str, Any]]:
    """The answers of all running agents of this user to a request; see `supervisor.control_socket`."""
    folders = sorted(paths.runtime_root().glob("*/"))
    return [answer for folder in folders if (answer := query(folder / SOCKET_NAME, request, within))]


def query(
    path: Path, request: dict[str, Any] | None = None, within: float = _ANSWER_WITHIN
) -> dict[str, Any] | None:
    """What the front behind the socket says, by default of its state; None if there is none any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(within)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(request or {}).encode() + b"\n")
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
    kind = "shared agent" if front.get("shared") else "agent"
    screen.print(
        f"[bold]{kind} {front['pid']}[/]  version {front['version']}, up {age(front['started'])}, "
        f"{front['connections']} connection(s), zygote {zygote.get('pid', '–')}"
    )
    table = Table(box=None, pad_edge=False, header_style="dim", collapse_padding=True)
    # A title or a folder as a column of its own would leave no room for the id on a terminal of 80 columns.
    table.add_column("session", min_width=_ID_WIDTH)
    for name in ("state", "pid", "epoch", "restarts", "MB", "cpu s"):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    for session in front["sessions"]:
        table.add_row(*map(Text, row(session)))
    screen.print(table)


def row(session: dict[str, Any]) -> list[str]:
    """The cells of a session, in the table's order; the first has lines for what has no column."""
    uss, cpu, background = session.get("uss"), session.get("cpu"), session.get("background")
    about = [
        session["sessionId"],
        session.get("title"),
        session.get("cwd"),
        f"background tasks: {background}" if background else None,
        f"last death: {session['lastDeath']}" if session.get("lastDeath") else None,
    ]
    return [
        "\n".join(harmless(line) for line in about if line),
        session["state"],
        str(session.get("pid") or "–"),
        str(session.get("epoch", "–")),
        str(session.get("restarts", 0)),
        f"{uss / 2**20:.1f}" if uss else "–",
        f"{cpu:.1f}" if cpu is not None else "–",
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
