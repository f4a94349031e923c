"""The agent that benchmarks measure: the installed command with a folder of its own."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from supervisor.cli.acp_client import AcpClient, connect
from supervisor.cli.ps import SOCKET_NAME, query
from tests.e2e.client import AGENT, offline_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

Chunk = tuple[float, str, str]
"""A piece of the assistant's text: when it came by `time.perf_counter()`, its message's id, the text."""


async def _allow(method: str, params: Any) -> dict[str, Any]:
    if method != "session/request_permission":
        raise NotImplementedError
    return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


@dataclass
class Agent:
    """A started agent, nothing said to it yet."""

    client: AcpClient
    home: Path
    chunks: dict[str, list[Chunk]] = field(default_factory=dict)
    """By session, the assistant's text as it came."""

    async def initialize(self) -> None:
        """The first request."""
        await self.client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

    async def new_session(self) -> str:
        """A new session's id."""
        answer = await self.client.request("session/new", {"cwd": str(self.home), "mcpServers": []})
        self.chunks[answer["sessionId"]] = []
        return str(answer["sessionId"])

    async def prompt(self, session_id: str, text: str) -> list[Chunk]:
        """Prompt and wait for the answer; the turn's text."""
        before = len(self.chunks[session_id])
        prompt = [{"type": "text", "text": text}]
        await self.client.request("session/prompt", {"sessionId": session_id, "prompt": prompt})
        return self.chunks[session_id][before:]

    async def state(self) -> dict[str, Any]:
        """What the front says of itself and its sessions: see `supervisor.control_socket`."""
        (socket,) = (self.home / "iac-code").glob(f"*/{SOCKET_NAME}")
        found = await to_thread.run_sync(query, socket)
        assert found is not None
        return found

    async def worker(self, session_id: str) -> int:
        """The pid of a session's worker."""
        (row,) = [row for row in (await self.state())["sessions"] if row["sessionId"] == session_id]
        return int(row["pid"])

    def boots(self) -> list[dict[str, Any]]:
        """What the log says of each worker that became ready."""
        log = (self.home / "config" / "logs" / "iac-code.jsonl").read_text()
        entries = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        return [entry for entry in entries if entry["message"] == "worker ready"]

    async def booted(self, count: int) -> dict[str, Any]:
        """The log's entry of the `count`-th worker that became ready, once it has."""
        with anyio.fail_after(30):
            while len(boots := self.boots()) < count:  # noqa: ASYNC110 - the log is another process's
                await anyio.sleep(0.01)
        return boots[count - 1]

    def _take(self, params: dict[str, Any]) -> None:
        update = params["update"]
        if update["sessionUpdate"] == "agent_message_chunk":
            chunk = (time.perf_counter(), update["messageId"], update["content"]["text"])
            self.chunks[params["sessionId"]].append(chunk)


@asynccontextmanager
async def agent(
    env: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[Agent]:
    """A started agent; with the offline model, unless `env` leads to another."""
    with tempfile.TemporaryDirectory(prefix="iac-bench-") as folder:
        home = Path(folder)
        (home / "config").mkdir(mode=0o700)
        (home / "config" / "settings.json").write_text(json.dumps(settings or {}))
        environment = {**offline_environment(home), "XDG_RUNTIME_DIR": folder, **(env or {})}
        async with connect(AGENT, lambda params: made._take(params), _allow, environment) as client:
            made = Agent(client, home)
            yield made


def ms_since(began: float) -> float:
    """Milliseconds since a `time.perf_counter()`."""
    return (time.perf_counter() - began) * 1000


async def bare_python() -> float:
    """Milliseconds from exec to exit of a Python that does nothing: how fast the machine is right now."""
    began = time.perf_counter()
    await anyio.run_process([sys.executable, "-c", ""])
    return ms_since(began)


async def first_of(agent: Agent, session_id: str, since: int, text: str) -> Chunk:
    """The first chunk from index `since` on that holds `text`, once it is there."""
    with anyio.fail_after(30):
        while True:
            for chunk in agent.chunks[session_id][since:]:
                if text in chunk[2]:
                    return chunk
            await anyio.sleep(0.001)
