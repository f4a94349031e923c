"""Servers' prompts as slash commands: how they are announced, and how what was typed is read. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from worker.mcp.failures import ServerFailure

if TYPE_CHECKING:
    from mcp_types import Prompt


def announced(full_name: str, prompt: Prompt) -> dict[str, Any]:
    """ACP's AvailableCommand."""
    description = " ".join((prompt.description or prompt.title or prompt.name).split())
    command: dict[str, Any] = {"name": full_name, "description": description[:300]}
    if prompt.arguments:
        command["input"] = {"hint": " ".join(_hint(a.name, bool(a.required)) for a in prompt.arguments)[:300]}
    return command


def _hint(name: str, required: bool) -> str:
    return name if required else f"[{name}]"


def arguments(prompt: Prompt, typed: str) -> dict[str, str]:
    """The prompt's arguments in their order, words or `name=value`; the last takes all that is left.

    Raises ServerFailure for one that is missing.
    """
    names = [argument.name for argument in prompt.arguments or ()]
    try:
        words = shlex.split(typed)
    except ValueError:
        words = typed.split()
    given: dict[str, str] = {}
    rest: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            given[name] = value
        else:
            rest.append(word)
    left = [name for name in names if name not in given]
    for place, name in enumerate(left):
        if rest:
            last = place == len(left) - 1
            given[name] = " ".join(rest) if last else rest[0]
            rest = [] if last else rest[1:]
    missing = [a.name for a in prompt.arguments or () if a.required and a.name not in given]
    if missing:
        raise ServerFailure(
            f"needs {', '.join(missing)} for its prompt {prompt.name!r}: type it after the name."
        )
    return given
