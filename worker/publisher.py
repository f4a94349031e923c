"""What a session says to its clients: events as finished lines on the data channel, in order.

Text deltas are merged: the first leaves at once, later ones wait for one display frame (16 ms) and
leave before anything else does. Credit in octets, given by the front as clients read, bounds what is
under way; without credit `publish` waits, and with it the reader of the model's stream.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

import anyio

from shared.frames import Header
from shared.jsonrpc import encode
from shared.updates import LONGEST_LINE, Dialect, chunks, prompt_result, shortened, update_line
from worker import events as ev
from worker.updates import call_status, to_update

if TYPE_CHECKING:
    from shared.channel import UnreliableChannel

FRAME: Final = 0.016
WINDOW: Final = 128 * 1024
"""Octets that a worker may have under way to its clients."""

ChunkKind = Literal["agent_message_chunk", "agent_thought_chunk"]


class Publisher:
    """The one writer of a worker's data channel."""

    def __init__(self, channel: UnreliableChannel, session_id: str, dialect: Dialect) -> None:
        self._channel = channel
        self._session_id = session_id
        self._dialect = dialect
        self._credit = WINDOW
        self._credited = anyio.Event()
        self._replay_credit: dict[str, int] = {}
        self._pending: list[str] = []
        self._pending_of: tuple[ChunkKind, str] = ("agent_message_chunk", "")
        self._frame_due = anyio.Event()
        self._last_chunk = 0.0
        self._records = 0
        self.open_calls: dict[str, str | None] = {}
        """The calls that clients were told of and that have not ended, with each one's parent call."""
        self.shown: dict[str, int] = {}
        """Characters sent by chunk key, of this turn, by earlier epochs too."""

    def count_records(self, n: int) -> None:
        """Durable records were written: the progress that the front's restart budget counts."""
        self._records += n

    def add_credit(self, octets: int, replay: str = "") -> None:
        """The front's clients have read this much: of live updates, or of a replay."""
        if not replay:
            self._credit += octets
        elif replay in self._replay_credit:
            self._replay_credit[replay] += octets
        self._credited.set()

    async def publish(self, event: ev.Event) -> None:
        """Send an event, after all before it. Waits for credit."""
        await self._affordable()
        match event:
            case ev.TextDelta():
                self._add_text("agent_message_chunk", event.message_id, event.text)
            case ev.ThinkingDelta():
                self._add_text("agent_thought_chunk", event.message_id, event.text)
            case ev.Compaction() | ev.Error():
                self.flush()
                self._add_text("agent_message_chunk", uuid4().hex, event.text)
                self.flush()
            case _:
                self._track(event)
                self.send_update(to_update(event), *call_status(event))

    def send_update(self, update: dict[str, Any], key: str = "", status: str = "") -> None:
        """Send a standard update at once, whatever the credit: it is small, or its sender has waited."""
        self.flush()
        self._send(Header("update", key, status), update_line(self._session_id, update, self._dialect))

    def send_title(self, title: str) -> None:
        """The session has a title now."""
        self.flush()
        self._send(Header("title"), encode(title))

    def send_commands(self, commands: list[dict[str, Any]]) -> None:
        """The session has these ACP commands beside the built-in ones."""
        self._send(Header("commands"), encode(commands))

    async def replay_slowly(self, request_id: str, number: int, update: dict[str, Any]) -> None:
        """As `replay`, when the client that asked has taken what it was sent before."""
        while self._replay_credit.setdefault(request_id, WINDOW) <= 0:
            self._credited = anyio.Event()
            await self._credited.wait()
        self._replay_credit[request_id] -= self.replay(request_id, number, update)

    def replay(self, request_id: str, number: int, update: dict[str, Any]) -> int:
        """Send the replay's `number`-th update, for the client that asked alone; its octets."""
        line = update_line(self._session_id, update, self._dialect)
        self._send(Header("replay", request_id, str(number)), line)
        return len(line)

    def end_replay(self, request_id: str) -> None:
        """The replay is over; credit that still comes for it counts for nothing."""
        self._replay_credit.pop(request_id, None)

    def request(self, key: str, method: str, params: dict[str, Any]) -> None:
        """Ask the client; the answer comes as a `Reply` with this key."""
        self.flush()
        params = {"sessionId": self._session_id, **params}
        encoded = encode(params)
        if len(encoded) > LONGEST_LINE and method == "session/request_permission":
            encoded = encode(shortened(params))
        self._send(Header("request", key, method), encoded)

    def withdraw(self, key: str) -> None:
        """The request is void."""
        self._send(Header("withdraw", key), b"")

    def answer(self, key: str, result: Any = None, *, error: dict[str, Any] | None = None) -> None:
        """Answer a turn or a replay; all that belongs to it has been sent before."""
        self.flush()
        self._send(Header("answer", key, "error" if error else ""), encode(error or result))

    def answer_prompt(self, turn_id: str, stop_reason: str, usage: dict[str, int]) -> None:
        """Answer a turn that ended well, or as the user wanted it."""
        self.answer(turn_id, prompt_result(stop_reason, usage, self._dialect))

    def flush(self) -> None:
        """Send the text that waits for its frame."""
        if not self._pending:
            return
        kind, message_id = self._pending_of
        text = "".join(self._pending)
        self._pending.clear()
        self._last_chunk = time.monotonic()
        key = f"{message_id}:{kind}"
        for piece in chunks(kind, text, message_id):
            self.shown[key] = self.shown.get(key, 0) + len(piece["content"]["text"])
            self._send(
                Header("chunk", key, str(self.shown[key])),
                update_line(self._session_id, piece, self._dialect),
            )

    async def flush_frames(self) -> None:
        """Flush merged text when its frame is due; runs as long as the worker."""
        while True:
            await self._frame_due.wait()
            await anyio.sleep(max(self._last_chunk + FRAME - time.monotonic(), 0))
            self._frame_due = anyio.Event()
            self.flush()

    async def _affordable(self) -> None:
        while self._credit <= 0:
            if self._credited.is_set():  # else others wait for it already
                self._credited = anyio.Event()
            await self._credited.wait()

    def _add_text(self, kind: ChunkKind, message_id: str, text: str) -> None:
        if self._pending_of != (kind, message_id):
            self.flush()
            self._pending_of = (kind, message_id)
        self._pending.append(text)
        if time.monotonic() - self._last_chunk >= FRAME:
            self.flush()
        elif not self._frame_due.is_set():
            self._frame_due.set()

    def _track(self, event: ev.Event) -> None:
        match event:
            case ev.ToolUseStart():
                self.open_calls[event.call_id] = event.parent_call_id
            case ev.ToolResult():
                self.open_calls.pop(event.call_id, None)

    def _send(self, header: Header, payload: bytes) -> None:
        if header.kind in ("update", "chunk"):  # what the front gives credit back for
            self._credit -= len(payload)
        self._channel.send([header._replace(records=self._records).encode(), payload])
