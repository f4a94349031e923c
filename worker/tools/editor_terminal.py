"""A command in a terminal of the client's editor, where the settings ask for it and the client offers it.

The editor's terminal is outside the sandbox and the worker's process tree, so only a command that would
not be confined anyway runs there. A client that does not open a terminal makes no call fail.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import anyio

from worker.child import Ended
from worker.client import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from worker.tools.base import ToolContext

_PATIENCE: Final = 5.0
"""Seconds for an answer to all but the wait for the command's end."""
_KEPT: Final = 1_000_000
"""Octets of output that the client keeps, from the end."""
_log = logging.getLogger(__name__)


async def run_in_terminal(
    argv: Sequence[str],
    environment: Mapping[str, str],
    limit: float,
    context: ToolContext,
    show: Callable[[str], Awaitable[None]],
) -> tuple[str, Ended] | None:
    """Run `argv` for at most `limit` seconds; its output and how it ended. None: there is no terminal.

    `environment` is set beside the terminal's own; `show` gets its id. Cancelled: the command is ended.
    """
    created = await _ask(
        context,
        "create",
        {
            "command": argv[0],
            "args": list(argv[1:]),
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "cwd": str(context.cwd),
            "outputByteLimit": _KEPT,
        },
    )
    terminal = created.get("terminalId")
    if not isinstance(terminal, str):
        return None
    named = {"terminalId": terminal}
    try:
        await show(terminal)
        ended = await _ended(context, named, limit)
        shown = await _ask(context, "output", named)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await _ask(context, "kill", named)
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await _ask(context, "release", named)
    output = shown.get("output")
    return output if isinstance(output, str) else "(the editor did not give the output)", ended


async def _ended(context: ToolContext, named: dict[str, Any], limit: float) -> Ended:
    exited = await _ask(context, "wait_for_exit", named, limit)
    if not exited:
        await _ask(context, "kill", named)
        return Ended(-9, timed_out=True)
    code = exited.get("exitCode")
    # Ended by a signal: which one is told as a name that differs between clients.
    return Ended(code if isinstance(code, int) else -9)


async def _ask(
    context: ToolContext, what: str, params: dict[str, Any], patience: float = _PATIENCE
) -> dict[str, Any]:
    """The client's result; empty if it answered with an error, with nonsense or not at all."""
    method = f"terminal/{what}"
    try:
        result = await context.editor.request(f"{context.call_id}:{method}", method, params, patience)
    except (ClientError, TimeoutError) as e:
        _log.info("The client did not do %s: %r", method, e)
        return {}
    return result if isinstance(result, dict) else {}
