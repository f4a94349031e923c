"""Fifty sessions that stream to two observers each: deltas a second that reach each of them."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from ops.benchmarks.measure import Benchmark, Sample
from ops.benchmarks.shared_agent import daemon

if TYPE_CHECKING:
    from collections.abc import Callable

    from ops.benchmarks.shared_agent import Daemon

_SESSIONS = 50
_DELTAS = 2_000
_LAST = b"that-was-all"


class _Observer:
    """A client that has all sessions and does little but read, in a thread of its own."""

    def __init__(self, shared: Daemon) -> None:
        self._place = {"cwd": str(shared.home), "mcpServers": []}
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(shared.socket))
        self._rest = b""
        self._made = 0
        self.began = self.ended = 0.0
        self.ask("initialize", {"protocolVersion": 1})
        self._until(1, lambda line: b'"agentInfo"' in line)

    def ask(self, method: str, params: dict[str, Any]) -> None:
        """Send a request."""
        self._made += 1
        request = {"jsonrpc": "2.0", "id": self._made, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def new_sessions(self) -> list[str]:
        """Fifty new ones."""
        for _ in range(_SESSIONS):
            self.ask("session/new", self._place)
        lines = self._until(_SESSIONS, lambda line: b'"result":{"sessionId"' in line)
        return [json.loads(line)["result"]["sessionId"] for line in lines]

    def load(self, sessions: list[str]) -> None:
        """Attach to them."""
        for session in sessions:
            self.ask("session/load", {**self._place, "sessionId": session})
        self._until(len(sessions), lambda line: b'"result":{"modes"' in line)

    def prompt(self, session: str, text: str) -> None:
        """Send a prompt; its answer is not waited for."""
        prompt = [{"type": "text", "text": text}]
        self.ask("session/prompt", {"sessionId": session, "prompt": prompt})

    def observe(self) -> None:
        """Read until each session has said its last word."""
        lines = self._until(_SESSIONS, lambda line: _LAST in line and b"agent_message_chunk" in line)
        assert len(lines) == _SESSIONS

    def _until(self, count: int, wanted: Callable[[bytes], bool]) -> list[bytes]:
        found: list[bytes] = []
        self.began = 0.0
        while len(found) < count:
            chunk = self._socket.recv(1 << 20)
            assert chunk, "the agent hung up"
            self.ended = time.perf_counter()
            self.began = self.began or self.ended
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            found += filter(wanted, lines)
        return found

    def close(self) -> None:
        """Leave."""
        self._socket.close()


async def _sample() -> Sample:
    async with daemon() as shared:
        first, second = [await to_thread.run_sync(_Observer, shared) for _ in range(2)]
        sessions = await to_thread.run_sync(first.new_sessions)
        await to_thread.run_sync(second.load, sessions)
        for text in (f"say warm\nsay {_LAST.decode()}", f"count to {_DELTAS}\nsay {_LAST.decode()}"):
            for session in sessions:
                first.prompt(session, text)
            async with anyio.create_task_group() as group:
                for observer in (first, second):
                    group.start_soon(to_thread.run_sync, observer.observe)
        rates = [_SESSIONS * _DELTAS / (each.ended - each.began) for each in (first, second)]
        first.close()
        second.close()
    return {"the slower observer": min(rates), "the faster one": max(rates)}


BENCHMARK = Benchmark(
    "deltas to each of 2 observers of 50 sessions", "/s", _sample, runs=3, target=5_000, more_is_better=True
)
