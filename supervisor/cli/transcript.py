"""Shows a session's updates to a person: streamed text, tool calls with their state, diffs.

On a terminal with colours and Markdown; elsewhere as plain text, as it came.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.text import Text

from supervisor.cli.diffs import diff_lines
from supervisor.cli.markdown_stream import MarkdownStream
from supervisor.cli.terminal import harmless

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = {
    "pending": ("…", "dim"),
    "in_progress": ("→", "cyan"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
}
_PLAN_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
_OUTPUT_LINES = 12
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class Transcript:
    """Takes updates (the `update` member) in order; `end` after each turn."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stream: tuple[str, MarkdownStream | None] | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._shown: set[tuple[str, str]] = set()
        self._held: list[dict[str, Any]] | None = None
        self.commands: list[str] = []
        """Names of the agent's `/` commands."""

    def hold(self) -> None:
        """Show nothing until `release`: the person is being asked something."""
        self.end()
        self._held = []

    def release(self) -> None:
        """Show what came while it was held."""
        held, self._held = self._held or [], None
        for update in held:
            self.take(update)

    def take(self, update: dict[str, Any]) -> None:
        """Show one update; kinds that mean nothing on a terminal are left out."""
        if self._held is not None:
            self._held.append(update)
            return
        match update.get("sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" as kind:
                if update["content"].get("type") == "text":
                    self._text(kind, str(update.get("messageId")), update["content"]["text"])
            case "tool_call" | "tool_call_update":
                self._call(update)
            case "plan":
                self.end()
                for entry in update["entries"]:
                    self._line(_PLAN_MARKS.get(entry["status"], "☐"), entry["content"], "")
            case "available_commands_update":
                self.commands = [command["name"] for command in update["availableCommands"]]
            case _:
                return

    def end(self) -> None:
        """Finish the message that streams, if any."""
        if self._stream is not None:
            _, markdown = self._stream
            self._stream = None
            if markdown is not None:
                markdown.end()
            else:
                self._console.print()

    def show_question(self, call_id: str, content: list[dict[str, Any]]) -> None:
        """Show what a permission request says: why it is asked, and what would change."""
        self._show_diffs(call_id, content)
        for item in content:
            if item.get("type") == "content":
                self._console.print(Text(harmless(item["content"].get("text", "")), style="yellow"))

    def _show_diffs(self, call_id: str, content: list[dict[str, Any]]) -> None:
        """The diffs among a call's content, each once."""
        for item in content:
            if item.get("type") == "diff" and (call_id, item["path"]) not in self._shown:
                self._shown.add((call_id, item["path"]))
                self.end()
                for line in diff_lines(item["path"], item.get("oldText") or "", item["newText"]):
                    self._console.print(Text(harmless(line), style=_STYLES.get(line[:1], "")))

    def _text(self, kind: str, message_id: str, text: str) -> None:
        on_terminal = self._console.is_terminal
        if kind == "agent_thought_chunk" and not on_terminal:
            return
        key = f"{kind} {message_id}"
        if self._stream is None or self._stream[0] != key:
            self.end()
            markdown = on_terminal and kind == "agent_message_chunk"
            self._stream = (key, MarkdownStream(self._console) if markdown else None)
        stream = self._stream[1]
        if stream is not None:
            stream.feed(harmless(text))
        elif on_terminal:
            style = "dim italic" if kind == "agent_thought_chunk" else "bold"
            self._console.print(Text(harmless(text), style=style), end="")
        else:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _call(self, update: dict[str, Any]) -> None:
        call_id = update["toolCallId"]
        call = self._calls.setdefault(call_id, {"title": call_id, "shown": None})
        call.update({key: update[key] for key in ("title", "kind") if key in update})
        status = update.get("status", call["shown"] or "pending")
        if status != call["shown"]:
            call["shown"] = status
            self.end()
            mark, style = _MARKS.get(status, ("?", ""))
            self._line(mark, call["title"], style)
        content = update.get("content") or []
        self._show_diffs(call_id, content)
        if status == "failed" or (
            status == "completed" and call.get("kind") not in {"read", "search", "edit"}
        ):
            self._output(content)

    def _output(self, content: list[dict[str, Any]]) -> None:
        texts = [item["content"].get("text", "") for item in content if item.get("type") == "content"]
        lines = harmless("\n".join(texts)).strip("\n").split("\n")
        if len(lines) > _OUTPUT_LINES:
            lines = [f"… {len(lines) - _OUTPUT_LINES} lines before", *lines[-_OUTPUT_LINES:]]
        for line in lines:
            if line:
                self._console.print(Text(f"    {line}", style="dim"))

    def _line(self, mark: str, text: str, style: str) -> None:
        self._console.print(Text.assemble((f"{mark} ", style), " ".join(harmless(text).split())))
