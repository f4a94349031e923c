"""The slash commands: announced by the front, run by the worker."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Command(NamedTuple):
    """`hint` describes the text after the name; None: there is none."""

    description: str
    hint: str | None = None


COMMANDS: Final = {
    "compact": Command("Summarize the conversation so far to free context", "what the summary should keep"),
    "clear": Command("Forget the conversation so far; the session stays"),
    "status": Command("Show model, mode, context and folders of this session"),
    "rename": Command("Give the session a title", "the title"),
    "help": Command("Show the commands"),
}


def available_commands() -> list[dict[str, Any]]:
    """ACP's AvailableCommand list."""
    return [
        {"name": name, "description": command.description}
        | ({"input": {"hint": command.hint}} if command.hint else {})
        for name, command in COMMANDS.items()
    ]
