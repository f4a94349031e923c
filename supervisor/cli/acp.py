"""`iac-code acp`: which agent an editor gets, a private front or the user's shared one.

Nothing heavy is imported before that is known, and before an editor that said `initialize` at once has its
answer: beside a shared agent this process is a pipe.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.updates import Dialect


def main(argv: list[str]) -> int:
    """Serve stdin and stdout until the client is gone; the process's exit code.

    `argv` are the words after `acp`. Where this user's shared agent runs, the editor is connected to it
    (`--shared`: it is started if need be; `--own`: never).
    """
    words = [word for word in argv if word not in ("--own", "--shared")]
    dialect = _dialect(words)
    if dialect is None:
        sys.stderr.write("iac-code acp: usage: iac-code acp [--dialect both|acp] [--own | --shared]\n")
        return 2
    if "--own" not in argv:
        from supervisor import pipe

        connected = pipe.connect_or_start() if "--shared" in argv else pipe.connect()
        if connected is not None:
            return pipe.run(connected, bare=dialect == "acp")
    from supervisor.greeting import greet

    greeting = greet(0, 1)
    from supervisor import acp

    return acp.main(dialect, greeting)


def _dialect(argv: list[str]) -> Dialect | None:
    chosen = os.environ.get("IAC_CODE_DIALECT") or "both"
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--dialect" and words:
            chosen = words.pop(0)
        elif word.startswith("--dialect="):
            chosen = word.removeprefix("--dialect=")
        else:
            return None
    return "acp" if chosen == "acp" else "both" if chosen == "both" else None
