"""Keeps one session in turns, and notes all that its client sees. It judges nothing."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio

from ops.chaos_run.agent import FrontGone
from ops.chaos_run.plan import done, script

if TYPE_CHECKING:
    from pathlib import Path

    from ops.chaos_run.agent import Agent
    from ops.chaos_run.plan import Script

_LOADS = 3
"""A worker that is struck before it is ready costs the load; not so often in a row."""
_DELTA = re.compile(r"<(\d+):(\d+)>")


@dataclass(frozen=True, slots=True)
class Delta:
    """A numbered delta as it arrived; `at` by time.monotonic()."""

    reply: int
    number: int
    message_id: str
    at: float


@dataclass
class Turn:
    """One prompt and what came of it. `outcome` None: no answer yet."""

    script: Script
    began: float
    ended: float = 0.0
    outcome: Literal["end_turn", "error", "front gone"] | str | None = None
    error: str = ""
    deltas: list[Delta] = field(default_factory=list)
    text: str = ""
    calls: dict[str, str] = field(default_factory=dict)
    """Last status by toolCallId."""
    commands: dict[str, str] = field(default_factory=dict)
    """The command of each call by toolCallId."""


class Player:
    """One session from `session/new` on; after a front's death it is loaded in the next one."""

    def __init__(self, seed: int, number: int, cwd: Path) -> None:
        self.seed = seed
        self.number = number
        self.cwd = cwd
        self.session_id = ""
        self.turns: list[Turn] = []
        self.mis_replayed: list[str] = []
        """What a load did not show exactly once though its turn was answered."""
        self.turned = anyio.Event()
        """Set when a turn is answered."""
        self._turn: Turn | None = None
        self._replayed: list[tuple[str, str]] | None = None

    async def open(self, agent: Agent) -> None:
        """Create the session, or load it in a new front. Raises FrontGone."""
        place: dict[str, Any] = {"cwd": str(self.cwd), "mcpServers": []}
        if not self.session_id:
            made = await agent.request("session/new", place)
            self.session_id = made["result"]["sessionId"]
            return
        self._turn = None
        answer: dict[str, Any] = {}
        for _ in range(_LOADS):
            self._replayed = []
            answer = await agent.request("session/load", {**place, "sessionId": self.session_id})
            replayed, self._replayed = self._replayed, None
            if "result" in answer:
                self._compare(replayed)
                return
            await anyio.sleep(0.2)
        self.mis_replayed.append(f"s{self.number}: load: {answer['error']}")

    def _compare(self, replayed: list[tuple[str, str]]) -> None:
        said = {kind: "".join(text for k, text in replayed if k == kind) for kind, _ in replayed}
        for turn in self.turns:
            name = turn.script.name
            typed = said.get("user_message_chunk", "").count(f"turn {name}.")
            ended = said.get("agent_message_chunk", "").count(done(name))
            wanted = {1} if turn.outcome == "end_turn" else {0, 1}
            if typed not in (wanted if turn.outcome != "error" else {0, 1}) or ended not in wanted:
                self.mis_replayed.append(f"{name} ({turn.outcome}): typed {typed}, ended {ended} times")

    async def turn(self, agent: Agent) -> None:
        """One turn, to its answer. One that failed revives the session by a load. Raises FrontGone."""
        made = script(self.seed, self.number, len(self.turns))
        turn = self._turn = Turn(made, time.monotonic())
        self.turns.append(turn)
        prompt = [{"type": "text", "text": made.prompt}]
        try:
            answer = await agent.request("session/prompt", {"sessionId": self.session_id, "prompt": prompt})
        except FrontGone:
            turn.ended, turn.outcome = time.monotonic(), "front gone"
            raise
        turn.ended = time.monotonic()
        self._turn = None
        self.turned.set()
        if "result" in answer:
            turn.outcome = answer["result"]["stopReason"]
        else:
            turn.outcome, turn.error = "error", str(answer["error"])
            await anyio.sleep(0.2)
            await self.open(agent)

    def take(self, update: dict[str, Any]) -> None:
        """An update of this session."""
        kind = update["sessionUpdate"]
        if self._replayed is not None:
            if kind.endswith("_message_chunk"):
                self._replayed.append((kind, update["content"]["text"]))
            return
        turn = self._turn
        if turn is None:
            return
        if kind == "agent_message_chunk":
            text = update["content"]["text"]
            turn.text += text
            now = time.monotonic()
            for match in _DELTA.finditer(text):
                turn.deltas.append(Delta(int(match[1]), int(match[2]), update["messageId"], now))
        elif "toolCallId" in update:
            call_id = update["toolCallId"]
            turn.calls[call_id] = update.get("status", turn.calls.get(call_id, ""))
            if "command" in update.get("rawInput", {}):
                turn.commands[call_id] = update["rawInput"]["command"]
