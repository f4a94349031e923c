"""What the pipe of `iac-code acp` knows of the conversation that it passes on. Pure.

It is enough to go on with another agent in the middle: which requests are open on either side, how the
editor introduced itself, and which sessions it has. Nothing is ever sent twice but the tail of a line that
no agent has seen whole. It imports no model and no event loop: the pipe must be there at once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

LONGEST: Final = 48 * 2**20
"""Octets of a line that are looked at; a longer one is passed on unread, and the agent refuses it."""
_OURS: Final = "iac-code-pipe-"
_HEAD: Final = b'{"jsonrpc":"2.0",'
_WITH_ID: Final = re.compile(
    rb'^\{"jsonrpc":"2\.0","id":(-?[0-9.eE+-]+|"(?:[^"\\]|\\.)*"),"(result|error|method)":'
)
_WITHDRAWN: Final = b'{"jsonrpc":"2.0","method":"$/cancel_request"'
_STANDARD: Final = ("sessionId", "cwd", "mcpServers", "additionalDirectories")
LOST: Final = "The shared agent was restarted before it answered. The session is saved: send it again."


class _Lines:
    """Cuts bytes into lines, in bounded memory."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.in_line = False
        """A line has begun and not ended."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` ends; those that were too long are left out."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for piece in ended:
            self._take(piece)
            lines.append(self.take_rest())
        self._take(rest)
        return [line for line in lines if line]

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        self.in_line = self._size > 0
        self._parts.append(piece)
        if self._size > LONGEST:
            self._parts.clear()

    def take_rest(self) -> bytes:
        """What there is of a line that has not ended, which begins anew; empty if it was too long."""
        rest = b"" if self._size > LONGEST else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self.in_line = False
        return rest


@dataclass(frozen=True, slots=True)
class _Asked:
    id: Any
    method: str
    params: dict[str, Any]
    line: bytes


class PipeState:
    """One editor's conversation, through however many agents."""

    def __init__(self, preface: bytes = b"") -> None:
        """`preface` are lines of the pipe's own that each agent is sent first."""
        self._preface = preface
        self._open: dict[str, _Asked] = {}
        """The editor's requests that are not answered."""
        self._asked: dict[str, Any] = {}
        """Ids of the agent's requests that the editor has not answered."""
        self._initialize: _Asked | None = None
        self._sessions: dict[str, dict[str, Any]] = {}
        self._quiet: set[str] = set()
        """Requests of the pipe's own: their answers are not for the editor."""
        self._up = _Lines()
        self._down = _Lines()

    def begin(self) -> bytes:
        """What a new agent is sent first: the editor's introduction, its sessions, the start of a line."""
        lines = [self._preface]
        self._quiet.clear()
        if self._initialize is not None:
            given = self._initialize
            if _key(given.id) in self._open:
                lines.append(given.line + b"\n")  # the last agent did not come to answer it
            else:
                lines.append(self._own(json.loads(given.line)))
            for session_id, place in self._sessions.items():
                resume = {"jsonrpc": "2.0", "method": "session/resume"}
                lines.append(self._own({**resume, "params": {**place, "sessionId": session_id}}))
        if half := self._up.take_rest():
            self._up.feed(half)
            lines.append(half)
        return b"".join(lines)

    def _own(self, request: dict[str, Any]) -> bytes:
        id_ = f"{_OURS}{len(self._quiet)}"
        self._quiet.add(_key(id_))
        return json.dumps({**request, "id": id_}).encode() + b"\n"

    def sent(self, chunk: bytes) -> None:
        """The editor wrote this, and it was passed on or lost."""
        for line in self._up.feed(chunk):
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(message, dict) or "id" not in message:
                continue
            method = message.get("method")
            if not isinstance(method, str):
                self._asked.pop(_key(message["id"]), None)
                continue
            params = message.get("params")
            asked = _Asked(
                message["id"],
                method,
                {name: params[name] for name in _STANDARD if name in params}
                if isinstance(params, dict)
                else {},
                line if method == "initialize" else b"",
            )
            self._open[_key(asked.id)] = asked
            if method == "initialize":
                self._initialize = asked

    def came(self, chunk: bytes) -> bytes:
        """The agent wrote this; what of it is for the editor. Whole lines where one may be the pipe's own."""
        if not self._quiet:
            for line in self._down.feed(chunk):
                self._look(line)
            return chunk
        kept = [line + b"\n" for line in self._down.feed(chunk) if not self._look(line)]
        if not self._quiet and (half := self._down.take_rest()):
            self._down.feed(half)
            kept.append(half)
        return b"".join(kept)

    @property
    def is_quiet(self) -> bool:
        """Some of what comes may not be for the editor."""
        return bool(self._quiet)

    def _look(self, line: bytes) -> bool:
        """True for the answer to a request of the pipe's own."""
        if not line.startswith(_HEAD):
            return False
        if line.startswith(_WITHDRAWN):
            self._asked.pop(_key(json.loads(line)["params"]["requestId"]), None)
        elif found := _WITH_ID.match(line):
            id_ = json.loads(found[1])
            key = _key(id_)
            if found[2] == b"method":
                self._asked[key] = id_
            elif key in self._quiet:
                self._quiet.discard(key)
                return True
            elif (asked := self._open.pop(key, None)) is not None and found[2] == b"result":
                self._note(asked, line)
        return False

    def _note(self, asked: _Asked, line: bytes) -> None:
        match asked.method:
            case "session/new" | "session/fork":
                made = json.loads(line)["result"].get("sessionId")
                self._sessions[made] = asked.params
            case "session/load" | "session/resume":
                self._sessions[str(asked.params.get("sessionId"))] = asked.params
            case "session/close" | "session/delete":
                self._sessions.pop(str(asked.params.get("sessionId")), None)

    def lost(self) -> bytes:
        """The agent is gone: ends what it left half said, withdraws what it asked, answers what it was asked.

        An `initialize` stays open, for the next agent to answer.
        """
        lines = [b"\n" if self._down.in_line and not self._quiet else b""]
        self._down.take_rest()
        for id_ in self._asked.values():
            withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id_}}
            lines.append(_line(withdrawn))
        self._asked.clear()
        for key, asked in list(self._open.items()):
            if asked.method != "initialize":
                del self._open[key]
                lines.append(_failed(asked.id, "restarted", LOST))
        return b"".join(lines)

    def given_up(self, details: str) -> bytes:
        """No agent will come: the answers to all that is open."""
        lines = [_failed(asked.id, "gone", details) for asked in self._open.values()]
        self._open.clear()
        return b"".join(lines)


def _key(id_: Any) -> str:
    return json.dumps(id_)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _failed(id_: Any, reason: str, details: str) -> bytes:
    error = {"code": -32603, "message": "Internal error", "data": {"reason": reason, "details": details}}
    return _line({"jsonrpc": "2.0", "id": id_, "error": error})
