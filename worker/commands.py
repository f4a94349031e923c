"""Slash commands: what a prompt that begins with `/` does instead of going to the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.commands import COMMANDS
from shared.records import ClearRecord
from worker.compaction import compact
from worker.retry_notice import RetryNotice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.records import Record
    from worker.agent_loop import Brain
    from worker.history import History
    from worker.publisher import Publisher


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A prompt's command, as typed."""

    name: str
    argument: str


def parse(blocks: list[dict[str, Any]]) -> SlashCommand | None:
    """The command in a prompt's ACP blocks. `//x` is text, and so is a path such as `/etc/hosts is …`."""
    if not blocks or blocks[0].get("type") != "text":
        return None
    text = blocks[0]["text"].strip()
    name, _, argument = text.removeprefix("/").partition(" ")
    if not text.startswith("/") or not name or not name.replace("-", "").replace("_", "").isalnum():
        return None
    return SlashCommand(name, argument.strip())


def unescaped(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blocks in which a leading `//` is the `/` that was meant."""
    if blocks and blocks[0].get("type") == "text" and blocks[0]["text"].startswith("//"):
        return [{**blocks[0], "text": blocks[0]["text"][1:]}, *blocks[1:]]
    return blocks


def was_compacting(turn: Sequence[Record]) -> bool:
    """The turn is a `/compact` that did its work: one that is in a prompt's turn comes after the prompt."""
    return any(record.kind == "compaction" for record in turn) and not any(
        record.kind in ("user", "command") for record in turn
    )


@dataclass
class Commands:
    """Runs commands on a session."""

    history: History
    turn_id: str
    publisher: Publisher
    think: Callable[[], Awaitable[Brain]]
    options: dict[str, str]
    roots: Callable[[], list[str]]
    status: Callable[[], list[str]]
    """Further lines of `/status`."""

    async def run(self, command: SlashCommand) -> str:
        """Do it; returns what the user is told. Raises ModelError, HistoryError."""
        match command.name:
            case "help":
                return _help()
            case "clear":
                await self.history.write(ClearRecord(**self.history.stamp()))
                return "The conversation was cleared. The session and its files stay as they are."
            case "compact":
                return await self._compact(command.argument)
            case "rename":
                if not command.argument:
                    return "Say the title after /rename."
                self.publisher.send_title(command.argument[:200])
                return f"The session is called: {command.argument[:200]}"
            case "status":
                return await self._status()
            case unknown:
                return f"There is no command /{unknown}.\n\n{_help()}"

    async def _compact(self, focus: str) -> str:
        turn = self.history.of_turn(self.turn_id)
        # A worker that died after it did this needs not do it again.
        done = next((record for record in turn if record.kind == "compaction"), None)
        if done is None:
            notice = RetryNotice(self.publisher.publish)
            done = await compact(self.history, await self.think(), focus, notice.tell, self.turn_id)
        if done is None:
            return "There is no summary that is whole and shorter; the conversation is as it was."
        return f"The conversation was compacted: a summary of {len(done.summary):,} characters stands for it."

    async def _status(self) -> str:
        brain = await self.think()
        window = brain.entry.window
        used = self.history.context(window).tokens
        spent = [request.usage for request in self.history.requests()]
        return "\n".join(
            (
                f"Model: {brain.entry.name} ({brain.entry.id}), thinking {self.options['thinking']}",
                f"Mode: {self.options['mode']}",
                f"Context: {used} of {window} tokens ({100 * used // window}%)",
                f"Requests: {len(spent)}, output tokens: {sum(usage.get('output', 0) for usage in spent)}",
                f"Folders: {', '.join(self.roots())}",
                *self.status(),
            )
        )


def _help() -> str:
    lines = [
        f"/{name}{f' [{command.hint}]' if command.hint else ''}: {command.description}"
        for name, command in COMMANDS.items()
    ]
    return "\n".join(["Commands:", *lines, "Begin with // to send text that starts with a slash."])
