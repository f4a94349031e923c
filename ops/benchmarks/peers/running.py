"""A peer that runs, and the little of ACP that all of them speak alike."""

from __future__ import annotations

import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from ops.benchmarks.peers.processes import at_home, end, tree
from supervisor.cli.acp_client import AcpClient, connect
from tests.e2e.client import offline_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ops.benchmarks.peers.agents import Peer

ANSWER_WITHIN = 60.0
"""Seconds for any one answer."""
# The agent's own pid, and its stderr out of the way; exec, so that the shell is not in the tree.
_START = 'echo $$ >"$HOME/pid"; exec "$@" 2>>"$HOME/stderr"'


class Failed(Exception):
    """A peer did not do what was asked; `str()` says what, for the table."""


@dataclass
class Running:
    """One started agent."""

    peer: Peer
    client: AcpClient
    home: Path
    began: float
    chunks: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """By session, when text came by `time.perf_counter()`, and the text."""

    @property
    def work(self) -> Path:
        """The sessions' working directory."""
        return self.home / "work"

    @property
    def pid(self) -> int:
        """The agent's process, and its process group."""
        return int((self.home / "pid").read_text())

    async def initialize(self) -> float:
        """Milliseconds from its start to the answer."""
        await self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return ms_since(self.began)

    async def new_session(self) -> str:
        """A session's id."""
        answer = await self.ask("session/new", {"cwd": str(self.work), "mcpServers": []})
        session_id = str(answer["sessionId"])
        self.chunks.setdefault(session_id, [])
        return session_id

    async def prompt(self, session_id: str, text: str) -> dict[str, Any]:
        """Prompt and wait for the answer."""
        prompt = [{"type": "text", "text": text}]
        answer: dict[str, Any] = await self.ask("session/prompt", {"sessionId": session_id, "prompt": prompt})
        return answer

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The answer. Raises Failed if there is none in time, CommandError for an error."""
        with anyio.move_on_after(ANSWER_WITHIN):
            return await self.client.request(method, params)
        raise Failed(f"no answer to {method} within {ANSWER_WITHIN:.0f} s")

    async def first_text(self, session_id: str) -> float:
        """When the first text of a session's coming turn came. To be entered before it."""
        seen = len(self.chunks[session_id])
        while len(self.chunks[session_id]) == seen:  # noqa: ASYNC110 - the client's callback is not async
            await anyio.sleep(0.0005)
        return self.chunks[session_id][seen][0]

    def text(self, session_id: str) -> str:
        """All that the session said."""
        return "".join(text for _, text in self.chunks[session_id])

    def worst_gap(self, session_id: str, until: float) -> float:
        """Milliseconds: the longest that nothing came, from the first text to `until`."""
        times = [at for at, _ in self.chunks[session_id]]
        return max((b - a) * 1000 for a, b in pairwise([*times, max(until, times[-1])]))

    def take(self, params: dict[str, Any]) -> None:
        """A `session/update`."""
        update = params["update"]
        content = update.get("content")
        if update["sessionUpdate"] == "agent_message_chunk" and isinstance(content, dict):
            came = (time.perf_counter(), content.get("text", ""))
            self.chunks.setdefault(params["sessionId"], []).append(came)


async def _allow(method: str, params: Any) -> dict[str, Any]:
    if method != "session/request_permission":
        raise NotImplementedError
    options = params["options"]
    allowing = [option for option in options if option.get("kind") == "allow_once"] or options
    return {"outcome": {"outcome": "selected", "optionId": allowing[0]["optionId"]}}


@asynccontextmanager
async def running(peer: Peer, base_url: str) -> AsyncIterator[Running]:
    """The peer, started in a home of its own; afterwards all its processes are ended."""
    with tempfile.TemporaryDirectory(prefix="iac-peer-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "work").mkdir()
        environment = {
            **offline_environment(home),
            "XDG_RUNTIME_DIR": folder,
            "NO_PROXY": "127.0.0.1",
            **peer.settle(home, base_url),
        }
        command = ["sh", "-c", _START, "sh", *peer.command]
        began = time.perf_counter()
        async with connect(command, lambda params: it.take(params), _allow, environment) as client:
            it = Running(peer, client, home, began)
            try:
                yield it
            finally:
                with anyio.CancelScope(shield=True):
                    end(tree(it.pid, home))
                    await anyio.sleep(0.1)
                    end(at_home(home))


def ms_since(began: float) -> float:
    """Milliseconds since a `time.perf_counter()`."""
    return (time.perf_counter() - began) * 1000
