"""The demo is the main job, so it runs here as a person runs it; each of its claims is checked by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ops.side_by_side import SideBySide

if TYPE_CHECKING:
    import pytest

CLAIMS = 12


def test_the_demo_holds_and_takes_less_than_15_seconds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops.demo"],
        capture_output=True,
        text=True,
        timeout=55,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "never used"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout.count("✓"), done.stdout.count("✗")) == (CLAIMS, 0), done.stdout
    assert "kill -9" in done.stdout
    seconds = float(done.stdout.rpartition("(")[2].partition(" s)")[0])
    assert seconds < 15, done.stdout
    assert list(tmp_path.iterdir()) == [], "the demo wrote into the user's home"


def test_two_sessions_stand_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    screen = SideBySide({"a": "A", "b": "B"})
    for session, text in (("a", "1 2"), ("b", "one two"), ("other", "no")):
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        screen.take({"method": "session/update", "params": {"sessionId": session, "update": update}})
    screen.end()
    last = capsys.readouterr().out.splitlines()[-1]
    assert [cell.strip() for cell in last.split("│")] == ["1 2", "one two"]
