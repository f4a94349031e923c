"""Asks the person at the terminal whether a tool may run. Without a terminal the answer is no."""

from __future__ import annotations

import sys
from typing import Any, Final

_KEYS: Final = {
    "allow_once": ("y", "yes"),
    "allow_always": ("a", "always"),
    "reject_once": ("n", "no"),
    "reject_always": ("never", "never"),
}
CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


def selected(options: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The answer that picks the option of this kind; a cancelled dialog where there is none."""
    for option in options:
        if option.get("kind") == kind:
            return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return CANCELLED


def kind_of(typed: str, options: list[dict[str, Any]]) -> str | None:
    """The option's kind that a person meant by what they typed, or None."""
    word = typed.strip().lower()
    for option in options:
        kind = str(option.get("kind"))
        if word and word in _KEYS.get(kind, ()):
            return kind
    return None


async def ask(title: str, options: list[dict[str, Any]]) -> str:
    """Ask until one of the options' kinds is typed. Raises KeyboardInterrupt on Ctrl-C.

    The end of the input counts as `reject_once`.
    """
    from prompt_toolkit import PromptSession

    offered = " / ".join(
        _KEYS[option["kind"]][1].replace(_KEYS[option["kind"]][0], f"[{_KEYS[option['kind']][0]}]", 1)
        for option in options
        if option.get("kind") in _KEYS
    )
    # The questions go to stderr's terminal when stdout is a pipe, so that answers alone are in the pipe.
    session: PromptSession[str] = PromptSession(output=_output())
    while True:
        try:
            typed = await session.prompt_async(f"Allow {title}? {offered}: ", handle_sigint=False)
        except EOFError:
            return "reject_once"
        kind = kind_of(typed, options)
        if kind is not None:
            return kind


def _output() -> Any:
    from prompt_toolkit.output import create_output

    return create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr)
