"""How a process ended, in the words that a person and a model read."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.child import Ended


def exit_code(returncode: int) -> int:
    """A shell's view of `subprocess`'s return code: 128 + n for signal n."""
    return 128 - returncode if returncode < 0 else returncode


def describe_exit(ended: Ended) -> str:
    """`exit 1`, `exit 137 (SIGKILL)`, and why it was ended if it was; empty for success.

    A shell reports a signal that ended a command in it as 128 + n too, so the code alone is named.
    """
    if ended.memory is not None:
        return (
            f"killed: it took {ended.memory / 2**20:,.0f} MiB of memory, more than the session's tools may. "
            "Have it work on less at a time."
        )
    code = exit_code(ended.returncode)
    if code == 0:
        return ""
    try:
        return f"exit {code} ({signal.Signals(code - 128).name})"
    except ValueError:
        if ended.returncode >= 0:
            return f"exit {code}"
    # Only the first and the last real-time signal have names, as in kill(1).
    number = -ended.returncode
    above = number - signal.SIGRTMIN
    return f"exit {code} ({f'SIGRTMIN+{above}' if above > 0 else f'signal {number}'})"
