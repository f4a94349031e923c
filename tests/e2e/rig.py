"""The installed agent beside the strict double of the model's API, over real stdio and real HTTP."""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import psutil

from tests.double import serving
from tests.e2e.client import PATIENCE, start_agent
from tests.e2e.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from tests.double import Double
    from tests.e2e.client import RawClient


ARMED = "armed"


@dataclass
class Rig:
    """One agent, one model, one folder to work in."""

    client: RawClient
    double: Double
    home: Path
    work: Path

    @property
    def sessions(self) -> Path:
        """Where sessions are stored."""
        return self.home / "config" / "sessions"

    def records(self, session_id: str) -> list[dict[str, Any]]:
        """The history as it is on disk."""
        lines = (self.sessions / session_id / "history.jsonl").read_bytes().splitlines()
        return [json.loads(line) for line in lines]

    def worker_pid(self, session_id: str) -> int:
        """The pid of the session's worker, which must be there."""
        worker = self.client.worker(session_id)
        assert worker is not None
        return int(worker.pid)

    def kill_worker(self, session_id: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Signal the session's worker; its pid."""
        pid = self.worker_pid(session_id)
        os.kill(pid, number)
        return pid

    def statuses(self, session_id: str) -> dict[str, str]:
        """The last status told of each tool call."""
        updates = self.client.updates(session_id, "tool_call", "tool_call_update")
        return {u["toolCallId"]: u["status"] for u in updates if "status" in u}

    def arm(self, fault: str) -> Path:
        """Have one of its `faults` happen to the next process that comes by. The file goes when it does."""
        armed = self.home.parent / ARMED / fault
        armed.touch()
        return armed

    def asked(self) -> str:
        """The newest conversation that the model was given, as text."""
        return json.dumps(self.double.requests[-1].body["messages"])


@asynccontextmanager
async def rig(
    tmp_path: Path,
    *,
    answer_permission: str | None = "allow_once",
    env: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    arguments: tuple[str, ...] = (),
    capabilities: Mapping[str, Any] | None = None,
    window: int = 1_000_000,
) -> AsyncIterator[Rig]:
    """An initialized agent with credentials for the double. At exit the model has refused nothing.

    Every line of the agent is held to the protocol (`tests.e2e.wire`).
    """
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir(exist_ok=True)
    (home / "config").mkdir(parents=True, exist_ok=True)
    if settings is not None:
        (home / "config" / "settings.json").write_text(json.dumps(settings))
    async with serving(window) as double:
        given = {
            "ANTHROPIC_API_KEY": "sk-test-secret",
            "ANTHROPIC_BASE_URL": double.base_url,
            "NO_PROXY": "127.0.0.1",
            **(env or {}),
        }
        async with start_agent(
            home,
            env=given,
            cwd=work,
            answer_permission=answer_permission,
            arguments=arguments,
            wire=Wire("acp" if "acp" in arguments else "both"),
        ) as client:
            await client.initialize(**(capabilities or {}))
            yield Rig(client, double, home, work)
            assert client.stderr == b""
        assert double.refusals == [], double.refusals


def faults(tmp_path: Path, wanted: Iterable[str]) -> dict[str, str]:
    """An environment in which an agent below `tmp_path` has these faults (`ACTION@POINT#N`) when armed."""
    armed = tmp_path / ARMED
    armed.mkdir(exist_ok=True)
    return {"IAC_CODE_FAULTS": ",".join(f"{fault}:{armed / fault}" for fault in wanted)}


async def until(condition: Callable[[], bool], within: float = PATIENCE) -> None:
    """Wait for what other processes do, which no event here tells. Raises TimeoutError."""
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)


def running_command(text: str) -> list[int]:
    """Processes whose command line is exactly `text`, zombies aside."""
    found: list[int] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        info = process.info
        if " ".join(info["cmdline"] or ()) == text and info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found
