"""The user's hooks: commands of `settings.json` that run before and after tools and at the end of turns.

Each gets one JSON object on its stdin. Exit code 2 before a tool denies the call with what the command
wrote to stderr; after a tool that text goes to the model with the result; at a turn's end the user is
shown it. Whatever else goes wrong with a hook is told once and stops nothing.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from worker import events as ev
from worker.off_loop import off_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from shared.settings import HookSetting, HookSettings
    from worker.tools.base import ToolOutput
    from worker.tools.processes import Processes

log = logging.getLogger(__name__)

DENIES: Final = 2
_LONGEST: Final = 10_000
"""Characters of a hook's text."""


@dataclass
class Hooks:
    """The hooks of one session."""

    settings: HookSettings
    session_id: str
    cwd: Path
    environment: Mapping[str, str]
    processes: Processes
    emit: Callable[[ev.Event], Awaitable[None]]
    _told: set[str] = field(default_factory=set)

    async def before_tool(self, tool: str, raw_input: dict[str, Any]) -> str | None:
        """Why the call must not run, or None."""
        event = {"event": "before_tool", "tool": tool, "input": raw_input}
        return await self._run(self.settings.before_tool, tool, event)

    async def after_tool(self, tool: str, raw_input: dict[str, Any], output: ToolOutput) -> str | None:
        """What the model is to be told beside the result, or None."""
        result = {"text": output.text, "is_error": output.is_error}
        event = {"event": "after_tool", "tool": tool, "input": raw_input, "result": result}
        return await self._run(self.settings.after_tool, tool, event)

    async def turn_end(self, stop_reason: str) -> None:
        """Tell them that a turn is over."""
        text = await self._run(self.settings.turn_end, "", {"event": "turn_end", "stop_reason": stop_reason})
        if text is not None:
            await self.emit(ev.Error(f"\n[A hook says: {text}]\n"))

    async def _run(self, hooks: Sequence[HookSetting], tool: str, event: dict[str, Any]) -> str | None:
        """Run those that are for the tool, in order, until one denies; its text."""
        fitting = [hook for hook in hooks if not tool or fnmatch.fnmatchcase(tool, hook.tool)]
        if not fitting:
            return None
        event = {**event, "session_id": self.session_id, "cwd": str(self.cwd)}
        told = json.dumps(event, default=str).encode()
        for hook in fitting:
            code, said = await self._run_one(hook, told)
            if code == DENIES:
                return said or f"A hook of the user's settings denies it ({hook.command})."
            if code != 0:
                await self._tell(hook, code, said)
        return None

    async def _run_one(self, hook: HookSetting, told: bytes) -> tuple[int | str, str]:
        """Its exit code, or what became of it; and its stderr."""
        said = bytearray()

        async def ignore(_: bytes) -> None:
            pass

        async def hear(data: bytes) -> None:
            said.extend(data[: 4 * _LONGEST - len(said)])

        try:
            stdin = await off_loop(_as_file, told)
            try:
                child = self.processes.start(
                    ["/bin/sh", "-c", hook.command],
                    cwd=self.cwd,
                    environment=self.environment,
                    receive=ignore,
                    receive_errors=hear,
                    stdin=stdin,
                    timeout=hook.timeout,
                )
            finally:
                os.close(stdin)
        except (OSError, ValueError) as e:
            return f"could not be started: {e}", ""
        ended = await self.processes.wait(child)
        text = said.decode(errors="replace").strip()[:_LONGEST]
        if ended.timed_out:
            return f"did not end within {hook.timeout:g} s", text
        if ended.memory is not None:
            return "took too much memory", text
        return ended.returncode, text

    async def _tell(self, hook: HookSetting, how: int | str, said: str) -> None:
        what = f"ended with code {how}" if isinstance(how, int) else how
        log.warning("a hook %s", what)
        if hook.command not in self._told:
            self._told.add(hook.command)
            text = f"The hook `{hook.command}` of your settings {what}{f': {said[:500]}' if said else ''}."
            await self.emit(ev.Error(f"\n[{text} What it was for goes on.]\n"))


def _as_file(data: bytes) -> int:
    """A descriptor that reads `data`: unlike a pipe it does not wait for a hook that reads nothing."""
    with tempfile.TemporaryFile(buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        file.seek(0)
        return os.dup(file.fileno())
