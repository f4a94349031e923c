"""The client's end of one front: sends requests, counts every answer, hands updates on as they come."""

from __future__ import annotations

import itertools
import random
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
from pydantic_core import from_json

from shared.jsonrpc import LineSplitter, encode, request_line, result_line
from tests.e2e.client import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anyio.abc import Process, TaskGroup


class FrontGone(Exception):
    """The front ended before it answered."""


class Agent:
    """One agent process. Permissions are allowed once, after up to 0.2 s, so that strikes meet open ones."""

    def __init__(self, process: Process, on_update: Callable[[str, dict[str, Any]], None], seed: int) -> None:
        self.process = process
        self.daemon: Process | None = None
        """The shared agent, where `process` is a pipe to one."""
        self.gone = anyio.Event()
        self.answers: Counter[str] = Counter()
        """By id, for all that were sent; the good ones have 1."""
        self.bad_lines = 0
        """Lines that are no JSON-RPC object."""
        self._on_update = on_update
        self._waiting: dict[str, tuple[anyio.Event, list[dict[str, Any]]]] = {}
        self._ids = itertools.count(1)
        self._sending = anyio.Lock()
        self._rng = random.Random(f"permissions {seed}")

    @property
    def front(self) -> Process:
        """The process that must never die by itself, and that strikes are meant for."""
        return self.daemon or self.process

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer, an error too. Raises FrontGone."""
        id_ = f"{method} {next(self._ids)}"
        answered, answers = self._waiting[id_] = (anyio.Event(), [])
        self.answers[id_] = 0
        await self._send(request_line(id_, method, encode(params)))
        if not self.gone.is_set():
            await answered.wait()
        del self._waiting[id_]
        if not answers:
            raise FrontGone
        return answers[0]

    async def _send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        async with self._sending:
            try:
                await self.process.stdin.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise FrontGone from None

    async def read(self, tasks: TaskGroup) -> None:
        """Take lines until the agent is gone."""
        assert self.process.stdout is not None
        splitter = LineSplitter()
        try:
            async for chunk in self.process.stdout:
                for line in splitter.feed(chunk):
                    self._take(line, tasks)
        except anyio.BrokenResourceError:
            pass  # killed in the middle of a line
        self.gone.set()
        for answered, _ in self._waiting.values():
            answered.set()

    def _take(self, line: Any, tasks: TaskGroup) -> None:
        try:
            message = from_json(line)
        except (TypeError, ValueError):
            message = None
        if not isinstance(message, dict):
            self.bad_lines += 1
        elif message.get("method") == "session/update":
            self._on_update(message["params"]["sessionId"], message["params"]["update"])
        elif message.get("method") == "session/request_permission":
            tasks.start_soon(self._allow, message["id"])
        elif "method" not in message:
            id_ = str(message.get("id"))
            self.answers[id_] += 1
            if id_ in self._waiting:
                answered, answers = self._waiting[id_]
                answers.append(message)
                answered.set()

    async def _allow(self, id_: str) -> None:
        await anyio.sleep(self._rng.choice([0.0, 0.0, 0.2]))
        outcome = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        try:
            await self._send(result_line(id_, encode(outcome)))
        except FrontGone:
            return  # and with it the question


async def _accepts(path: Path) -> None:
    """Wait until somebody listens there; a socket file alone may be that of an agent that was killed."""
    while True:
        try:
            await (await anyio.connect_unix(path)).aclose()
        except OSError:
            await anyio.sleep(0.02)
        else:
            return


async def start(
    environment: Mapping[str, str],
    on_update: Callable[[str, dict[str, Any]], None],
    seed: int,
    tasks: TaskGroup,
    shared: Path | None = None,
) -> Agent:
    """Start a front as an editor would, and initialize it. Raises FrontGone.

    `shared`: the socket of a shared agent, which is started first and which the editor's end attaches to.
    """
    daemon: Process | None = None
    if shared is not None:
        daemon = await anyio.open_process([*AGENT[:-1], "serve"], env=environment, start_new_session=True)
        await _accepts(shared)
    process = await anyio.open_process(
        AGENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        env=environment,
        start_new_session=True,
    )
    agent = Agent(process, on_update, seed)
    agent.daemon = daemon
    tasks.start_soon(agent.read, tasks)
    await agent.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    return agent
