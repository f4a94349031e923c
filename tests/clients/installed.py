"""Where ops/setup-clients has put the clients, and what their tests share: an agent whose lines are kept."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from tests.e2e.client import AGENT, offline_environment
from tests.e2e.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER: Final = Path(__file__).parents[2] / ".clients"
NODE_MODULES: Final = FOLDER / "node_modules"
PATIENCE: Final = 50.0
"""Seconds for a client's whole run. Generous: only a failure takes so long."""


@functools.cache
def node() -> str:
    """A node that is recent enough for all clients; skips the test, loudly, where there is none."""
    bundled = next(NODE_MODULES.glob("node-*/bin/node"), None)
    if bundled is not None:
        return str(bundled)
    found = shutil.which("node")
    if found is None or not NODE_MODULES.exists():
        pytest.skip("NOT TESTED: node's clients. There is no node and npm, or ops/setup-clients has not run.")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.strip().lstrip("v").split(".")[:2])) < (22, 13):
        pytest.skip(f"NOT TESTED: node's clients. They need node 22.13, and this is {version.strip()}.")
    return found


def conduit_python() -> str:
    """The Python that has conduit-agent-sdk; skips the test, loudly, where there is none."""
    python = FOLDER / "conduit" / "bin" / "python"
    if not python.exists():
        pytest.skip("NOT TESTED: conduit-agent-sdk. It needs Python 3.12, or ops/setup-clients has not run.")
    return str(python)


class RecordedAgent:
    """The agent with its lines kept, for a client that starts it by a command of its own."""

    def __init__(self, tmp_path: Path, **env: str) -> None:
        self.home = tmp_path / "home"
        self.work = tmp_path / "work"
        self.work.mkdir()
        self.log = tmp_path / "wire.log"
        self.environment: Mapping[str, str] = {
            **offline_environment(self.home),
            "IAC_CODE_MODEL": "offline",
            "PYTHONPATH": os.pathsep.join(sys.path),
            **env,
        }
        record = str(Path(__file__).with_name("record.py"))
        self.command: Sequence[str] = [sys.executable, record, str(self.log), *AGENT]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a client in the folder to work in, to its end."""
        return subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def _running(self) -> list[str]:
        """Processes that work in the folder: the client's, the agent's, its workers and their tools."""
        found: list[str] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.work):
                    found.append(" ".join(process.cmdline()))
        return found

    def lines(self) -> list[tuple[bytes, dict[str, Any]]]:
        """What was recorded: the direction (`>` is to the agent), and the message."""
        return [(line[:1], json.loads(line[1:])) for line in self.log.read_bytes().splitlines()]

    def methods(self) -> list[str]:
        """The methods that the client asked for, in order."""
        return [message["method"] for mark, message in self.lines() if mark == b">" and "method" in message]

    def check(self, dialect: str = "both") -> None:
        """Nothing is left running, and every line held to the standard's schema and the protocol's rules."""
        deadline = time.monotonic() + PATIENCE
        while left := self._running():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)  # the client has ended; how its children do, no event tells
        wire = Wire(dialect)
        for line in self.log.read_bytes().splitlines():
            if line.startswith(b">"):
                message = json.loads(line[1:])
                if message.get("method") == "initialize":
                    assert wire.finished() == []
                    wire = Wire(dialect)  # a new process
                wire.sent(message)
            else:
                wire.received(line[1:])
        assert wire.finished() == []
