"""Hooks: the user's commands before and after tools and at the end of turns."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from shared.processes import become_subreaper
from shared.settings import HookSettings
from worker import events as ev
from worker.hooks import Hooks
from worker.tools.base import ToolOutput
from worker.tools.processes import Processes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Told:
    """Hooks of these settings, and what the user was told."""

    def __init__(self, processes: Processes, folder: Path, **settings: Any) -> None:
        self.texts: list[str] = []

        async def emit(event: ev.Event) -> None:
            assert isinstance(event, ev.Error)
            self.texts.append(event.text)

        made = HookSettings.model_validate(settings)
        self.hooks = Hooks(made, "the-session", folder, dict(os.environ), processes, emit)


async def test_a_hook_gets_json_and_its_exit_code_2_denies_with_its_text(tmp_path: Path) -> None:
    command = "cat > seen.json; echo 'not on my watch' >&2; exit 2"
    async with Processes() as processes:
        told = Told(processes, tmp_path, before_tool=[{"command": command, "tool": "bash"}])
        assert await told.hooks.before_tool("bash", {"command": "ls \ud800"}) == "not on my watch"
        assert await told.hooks.before_tool("read_file", {}) is None
    assert told.texts == []
    seen = json.loads((tmp_path / "seen.json").read_bytes())
    assert seen["event"] == "before_tool"
    assert seen["tool"] == "bash"
    assert seen["input"]["command"].startswith("ls")
    assert seen["session_id"] == "the-session"
    assert seen["cwd"] == str(tmp_path)


async def test_hooks_run_in_order_until_one_denies(tmp_path: Path) -> None:
    hooks = [
        {"command": f"echo {n} >> order; {then}"} for n, then in ((1, "true"), (2, "exit 2"), (3, "true"))
    ]
    async with Processes() as processes:
        told = Told(processes, tmp_path, before_tool=hooks)
        denied = await told.hooks.before_tool("mcp__x__y", {})
    assert denied is not None
    assert "denies it" in denied
    assert (tmp_path / "order").read_text() == "1\n2\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo oops >&2; exit 1", "ended with code 1: oops"),
        ("sleep 600", "did not end within 0.2 s"),
        ("/nowhere/at-all", "ended with code 127"),
        ("kill -9 $$", "ended with code -9"),
    ],
)
async def test_a_hook_that_fails_stops_nothing_and_is_told_once(
    tmp_path: Path, command: str, why: str
) -> None:
    async with Processes() as processes:
        told = Told(
            processes,
            tmp_path,
            before_tool=[{"command": command, "timeout": 0.2 if "sleep" in command else 20}],
        )
        assert await told.hooks.before_tool("bash", {}) is None
        assert await told.hooks.before_tool("bash", {}) is None
    (text,) = told.texts
    assert why in text


async def test_a_hook_that_reads_nothing_of_much_input_does_not_hang(tmp_path: Path) -> None:
    async with Processes() as processes:
        told = Told(
            processes, tmp_path, after_tool=[{"command": "exit 2"}, {"command": "yes >&2 | head -c 9M >&2"}]
        )
        output = ToolOutput("x" * 5_000_000)
        assert await told.hooks.after_tool("bash", {"a": "y" * 5_000_000}, output) is not None


async def test_a_hook_after_a_tool_sees_its_result(tmp_path: Path) -> None:
    async with Processes() as processes:
        told = Told(processes, tmp_path, after_tool=[{"command": "cat > seen.json"}])
        assert await told.hooks.after_tool("bash", {}, ToolOutput("out", is_error=True)) is None
    assert json.loads((tmp_path / "seen.json").read_bytes())["result"] == {"text": "out", "is_error": True}


async def test_what_a_hook_started_ends_with_it(tmp_path: Path) -> None:
    become_subreaper()  # as a worker is: what was signalled can then be awaited
    async with Processes() as processes:
        told = Told(processes, tmp_path, turn_end=[{"command": "sleep 600 & echo $! > pid"}])
        await told.hooks.turn_end("end_turn")
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(int((tmp_path / "pid").read_text()))
        try:
            # One that was killed is seen to run until the kernel has taken it down.
            with anyio.fail_after(20):
                await anyio.wait_readable(pidfd)
        finally:
            os.close(pidfd)
