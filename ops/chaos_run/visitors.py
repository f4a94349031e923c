"""Clients of a shared agent that come and vanish while others work: `ops/chaos --clients N`.

Each connects, does one thing that clients do (loads or resumes a session that is in a turn, prompts one of
its own, begins a line), and hangs up at a moment that nobody expects, whatever is on its way to it.
"""

from __future__ import annotations

import json
import random
import socket
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ops.chaos_run.player import Player

_STAYS: Final = (0.0, 0.05, 0.5, 2.0)
"""Seconds at most from its last request until it vanishes."""
_AWAY: Final = 3.0
"""Seconds at most until it comes again."""


class Visitors:
    """`came` counts connections, `bad_lines` what they were sent that is no JSON-RPC object."""

    def __init__(self, number: int, seed: int, path: Path, players: Sequence[Player], cwd: Path) -> None:
        self.came = 0
        self.bad_lines = 0
        self._number = number
        self._seed = seed
        self._path = path
        self._players = players
        self._cwd = cwd

    async def visit(self) -> None:
        """All of them, over and over. Never returns."""
        async with anyio.create_task_group() as tasks:
            for number in range(self._number):
                tasks.start_soon(self._one, random.Random(f"visitor {self._seed} {number}"))

    async def _one(self, rng: random.Random) -> None:
        while True:
            await anyio.sleep(rng.uniform(0, _AWAY))
            try:
                with socket.socket(socket.AF_UNIX) as agent:
                    agent.setblocking(False)
                    agent.connect(str(self._path))
                    self.came += 1
                    await self._stay(agent, rng)
                    if rng.random() < 0.5:
                        agent.shutdown(socket.SHUT_WR)  # it may end with answers still on their way
                    # else: what it has not read is thrown away, and the agent's writes fail
            except OSError:
                continue  # the agent was struck, or has hung up, or its queue is full

    async def _stay(self, agent: socket.socket, rng: random.Random) -> None:
        agent.sendall(_line(0, "initialize", {"protocolVersion": 1}))
        player = rng.choice(self._players)
        place = {"sessionId": player.session_id, "cwd": str(player.cwd), "mcpServers": []}
        own = {"cwd": str(self._cwd), "mcpServers": []}
        text = [{"type": "text", "text": "@text of a visitor"}]
        doing = rng.choice(["load", "load", "load", "resume", "list", "new", "half", "close", "nothing"])
        match doing:
            case "load" | "resume" | "close" if player.session_id:
                agent.sendall(_line(1, f"session/{'load' if doing == 'close' else doing}", place))
                if doing == "close":  # others have it: that detaches
                    agent.sendall(_line(2, "session/close", {"sessionId": player.session_id}))
            case "list":
                agent.sendall(_line(1, "session/list", {}))
            case "new" if rng.random() < 0.1:
                agent.sendall(_line(1, "session/new", own))
                made = await self._answer_to(agent, 1)
                session = made["result"]["sessionId"]
                agent.sendall(_line(2, "session/prompt", {"sessionId": session, "prompt": text}))
            case "half":
                agent.sendall(_line(1, "session/list", {})[:-9])
        with anyio.move_on_after(rng.uniform(0, rng.choice(_STAYS))):
            await self._answer_to(agent, None)

    async def _answer_to(self, agent: socket.socket, id_: int | None) -> dict[str, Any]:
        """Read on, until the answer with this id if there is one to wait for."""
        rest = b""
        while True:
            await anyio.wait_readable(agent)
            chunk = agent.recv(1 << 18)
            if not chunk:
                raise ConnectionError
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    message = None
                if not isinstance(message, dict):
                    self.bad_lines += 1
                elif id_ is not None and message.get("id") == id_ and "result" in message:
                    return message


def _line(id_: int, method: str, params: dict[str, Any]) -> bytes:
    message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"
