"""`iac-code chat`: a conversation on the terminal. `/quit` and `/new` are its own; the agent has others."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import anyio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory

from shared import paths
from supervisor.cli.acp_client import AgentError
from supervisor.cli.conversation import Choices, Conversation, converse
from supervisor.cli.failure import CommandError
from supervisor.cli.terminal import console
from supervisor.cli.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

Options = Choices


def run(options: Options) -> int:
    """Talk until the person leaves. Raises CommandError."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise CommandError("chat needs a terminal; without one use `iac-code ask`.")
    return anyio.run(_chat, options)


async def _chat(options: Options) -> int:
    screen = console()
    transcript = Transcript(screen)
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(_history_file())),
        completer=_SlashCommands(transcript),
        complete_while_typing=True,
    )

    def on_update(params: dict[str, Any]) -> None:
        transcript.take(params["update"])

    async with converse(options, transcript, on_update) as conversation:
        screen.print(f"Session {conversation.session_id}. /new, /quit; Ctrl-C stops a turn.", style="dim")
        while True:
            transcript.hold()
            try:
                text = (await session.prompt_async("› ", handle_sigint=False)).strip()
            except KeyboardInterrupt:
                # As in a shell: what was typed is thrown away.
                continue
            except EOFError:
                return 0
            finally:
                transcript.release()
            if text == "/quit":
                return 0
            if text and not await _one(conversation, text):
                return 130


async def _one(conversation: Conversation, text: str) -> bool:
    """Do what one line says; False when the person wants to leave."""
    screen = console()
    try:
        if text == "/new":
            await conversation.open(None)
            screen.print(f"Session {conversation.session_id}.", style="dim")
            return True
        stop_reason = await conversation.turn(text)
    except AgentError as e:
        # The session stays usable, so the conversation goes on; the agent's own end is fatal.
        screen.print(str(e), style="red", markup=False)
        return True
    if stop_reason not in {None, "end_turn"}:
        screen.print(f"({stop_reason})", style="dim")
    return stop_reason is not None


def _history_file() -> Path:
    """The file of typed lines, readable by this user alone."""
    folder = paths.config_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "chat_history"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return path


class _SlashCommands(Completer):
    """Completes `/` words: ours, and those that the agent offers."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if typed.startswith("/") and " " not in typed:
            for name in ("new", "quit", *self._transcript.commands):
                if name.startswith(typed[1:]):
                    yield Completion(name, start_position=1 - len(typed))
