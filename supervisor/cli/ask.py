"""`iac-code ask`: one prompt, its answer on the terminal, the stop reason as exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

import anyio
from pydantic_core import to_json

from supervisor.cli.conversation import Choices, converse
from supervisor.cli.failure import CommandError
from supervisor.cli.terminal import console
from supervisor.cli.transcript import Transcript

EXIT_CODES: Final = {"end_turn": 0, "refusal": 2, "max_tokens": 3, "max_turn_requests": 4, "cancelled": 130}
_SAID: Final = {
    "refusal": "The model refused to go on.",
    "max_tokens": "The answer was cut: it reached the model's limit of tokens.",
    "max_turn_requests": "Stopped: the turn reached its limit of requests to the model.",
    "cancelled": "Cancelled.",
}


@dataclass(frozen=True, slots=True)
class Options(Choices):
    """The command's options; `text` None is read from stdin."""

    text: str | None
    json: bool


def run(options: Options) -> int:
    """Ask, and print what comes. Raises CommandError."""
    text = options.text if options.text is not None else _read_stdin()
    if not text.strip():
        raise CommandError('There is no prompt: say what to do, as in `iac-code ask "explain main.tf"`.')
    return anyio.run(_ask, options, text)


def _read_stdin() -> str:
    return "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()


async def _ask(options: Options, text: str) -> int:
    transcript = None if options.json else Transcript(console())

    def on_update(params: dict[str, Any]) -> None:
        if transcript is not None:
            transcript.take(params["update"])
        else:
            sys.stdout.buffer.write(to_json(params) + b"\n")
            sys.stdout.buffer.flush()

    async with converse(options, transcript, on_update) as conversation:
        stop_reason = await conversation.turn(text)
    errors = console(stderr=True)
    if stop_reason in _SAID:
        errors.print(_SAID[stop_reason])
    if not options.json and errors.is_terminal:
        errors.print(f"Go on with: iac-code ask --session {conversation.session_id} …", style="dim")
    return 130 if stop_reason is None else EXIT_CODES.get(stop_reason, 1)
