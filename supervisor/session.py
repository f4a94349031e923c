"""One session as the front sees it: its turns, its worker's epoch, what is open. A pure state machine.

Fed with what clients ask, what the worker says and how it ends, it returns what is to be done
(`effects`). It holds no history and reads no clock; every client request ends in exactly one answer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pydantic_core import from_json

from shared.errors import INTERNAL_ERROR, RequestError
from shared.frames import Cancel, Configure, Open, Replay, Servers, Swept
from shared.jsonrpc import encode
from shared.updates import chunk, prompt_result
from supervisor import effects as fx
from supervisor.dialogs import Dialogs
from supervisor.restarts import RestartBudget
from supervisor.turns import OpenReplay, OpenTurn

if TYPE_CHECKING:
    from typing import Any, Literal

    from shared.frames import Header
    from shared.mcp_servers import McpServer
    from shared.updates import Dialect

MAX_WAITING: Final = 8
CANCEL_BEFORE_START: Final = 0.15
"""Seconds that a cancelled turn waits for a worker that is still starting."""
USAGE_NONE: Final = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
TURN_DROPPED: Final = "Not run: the turn before it did not end normally. Send it again if it is still wanted."


@dataclass
class Session:
    """The states of a session's worker are `none`, `starting`, `ready` and `ending`."""

    id: str
    epoch: int
    options: dict[str, str]
    directories: list[str]
    recover: Literal["continue", "report"]
    cancel_within: float
    dialect: Dialect
    worker: Literal["none", "starting", "ready", "ending"] = "none"
    turn: OpenTurn | None = None
    waiting: deque[OpenTurn] = field(default_factory=deque)
    budget: RestartBudget = field(default_factory=RestartBudget)
    failed: str | None = None
    last_death: str | None = None
    background: int = 0
    closed: bool = False
    servers: list[McpServer] = field(default_factory=list)
    """MCP servers that a client gave. Kept here alone: they hold secrets."""
    _dialogs: Dialogs = field(default_factory=Dialogs)
    _cancelled: list[OpenTurn] = field(default_factory=list)
    """Answered by the front as cancelled; their workers have not recorded them yet."""
    _replays: dict[str, OpenReplay] = field(default_factory=dict)
    _booted: bool = False
    _records: int = 0
    _ready_at: float | None = None
    _swept: bool = True
    _outdated: bool = False
    """The worker's folders are no longer the session's; no further turn begins in it."""
    _notice: str | None = None

    # What clients ask

    def prompt(
        self, ticket: fx.Ticket, blocks: list[dict[str, Any]], capabilities: dict[str, Any]
    ) -> list[fx.Effect]:
        """A prompt: it runs now, or waits for the turn before it."""
        if self.failed is not None:
            return [fx.Fail(ticket, RequestError(INTERNAL_ERROR, self.failed, session_id=self.id))]
        turn = OpenTurn(uuid4().hex, ticket, blocks, capabilities)
        if self.turn is not None:
            if len(self.waiting) >= MAX_WAITING:
                details = f"The session is busy: {MAX_WAITING} prompts wait already. Send it again later."
                return [fx.Fail(ticket, RequestError(INTERNAL_ERROR, details, reason="busy"))]
            self.waiting.append(turn)
            return []
        return self._begin(turn)

    def take_up(self, turn_id: str) -> list[fx.Effect]:
        """Go on with a turn that an earlier front left open. Nobody waits for its answer.

        Not if a client was quicker with a prompt: that one's worker marks the turn as interrupted.
        """
        if self.turn is not None:
            return []
        nobody = fx.Ticket(0, None)
        return self._begin(OpenTurn(turn_id, nobody, [], {}))

    def cancel(self) -> list[fx.Effect]:
        """End the running turn and those that wait."""
        effects: list[fx.Effect] = []
        if self.turn is not None and not self.turn.cancelled:
            self.turn.cancelled = True
            ready = self.worker == "ready"
            if ready:
                effects.append(fx.SendControl(Cancel(turn_id=self.turn.turn_id)))
            within = self.cancel_within if ready else CANCEL_BEFORE_START
            effects.append(fx.SetTimer(f"cancel:{self.turn.turn_id}", within))
        while self.waiting:
            effects.append(fx.Answer(self.waiting.popleft().ticket, self._cancelled_result()))
        return effects

    def cancel_request(self, ticket: fx.Ticket) -> list[fx.Effect]:
        """End the turn of one prompt."""
        if self.turn is not None and self.turn.ticket is ticket:
            return self.cancel()
        for turn in self.waiting:
            if turn.ticket is ticket:
                self.waiting.remove(turn)
                return [fx.Answer(ticket, self._cancelled_result())]
        return []

    def replay(self, ticket: fx.Ticket) -> list[fx.Effect]:
        """Have the history sent to the client that asked; its answer follows as `Answer`."""
        request_id = uuid4().hex
        self._replays[request_id] = OpenReplay(ticket)
        if self.worker == "ready":
            return [fx.SendData(Replay(request_id=request_id))]
        return self._wake()

    def configure(self, options: dict[str, str]) -> list[fx.Effect]:
        """The options changed; a turn that runs goes on with them."""
        self.options = options
        return [fx.SendControl(Configure(options=options))] if self.worker == "ready" else []

    def use_servers(self, servers: list[McpServer]) -> list[fx.Effect]:
        """Other MCP servers from now on; a turn that runs goes on with them."""
        self.servers = servers
        return [fx.SendData(Servers(mcp_servers=servers))] if self.worker == "ready" else []

    def wake(self) -> list[fx.Effect]:
        """Have a worker, though nothing is asked of it yet."""
        return [] if self.closed or self.failed is not None else self._wake()

    def revive(self) -> None:
        """Load or resume clears a failed session."""
        self.failed = None
        self.budget.clear()

    def client_answered(self, key: str, result: Any, error: dict[str, Any] | None) -> list[fx.Effect]:
        """A client's answer to a request of this session; ignored if it was withdrawn."""
        ready = self.epoch if self.worker == "ready" else None
        return self._dialogs.answered(key, result, error, ready)

    def turns(self) -> list[OpenTurn]:
        """The turn that runs, and those that wait for it."""
        return [*([self.turn] if self.turn is not None else []), *self.waiting]

    def open_requests(self) -> list[fx.AskClient]:
        """Requests that a client may still answer, as they were asked."""
        return self._dialogs.unanswered()

    # What the worker says

    def ready(self, now: float) -> list[fx.Effect]:
        """The worker's loop runs and both channels stand: give it its session and what is open."""
        if self.worker != "starting":
            return []  # it is being ended
        self.worker = "ready"
        self._booted = True
        self._ready_at = now
        self._records = 0
        turn = self.turn
        effects: list[fx.Effect] = [
            fx.SendData(
                Open(
                    options=self.options,
                    directories=self.directories,
                    resuming=turn.turn_id if turn else None,
                    calls=turn.calls if turn else {},
                    shown=turn.shown if turn else {},
                    swept=self._swept,
                    restarted=self._notice if turn else None,
                    mcp_servers=self.servers,
                )
            )
        ]
        self._notice = None
        effects += [
            fx.SendData(Replay(request_id=request_id, skip=replay.sent))
            for request_id, replay in self._replays.items()
        ]
        for delivered in [*self._cancelled, *([turn] if turn is not None else [])]:
            if delivered.cancelled:
                effects.append(fx.SendControl(Cancel(turn_id=delivered.turn_id)))
            effects.append(delivered.deliver())
        return effects

    def frame(self, header: Header, payload: bytes) -> list[fx.Effect]:
        """A data frame of the current epoch."""
        self._records = max(self._records, header.records)
        if self.worker != "ready":  # it is being ended, and its turn was answered
            return []
        match header.kind:
            case "update" | "chunk":
                return self._update(header, payload)
            case "replay":
                replay = self._replays.get(header.key)
                if replay is None:
                    return []
                replay.sent = int(header.status)
                return [fx.PublishTo(replay.ticket, payload, header.key)]
            case "request":
                return self._dialogs.asked(header, payload, self.epoch)
            case "withdraw":
                return self._dialogs.withdrawn(header.key)
            case "answer":
                return self._answer(header, payload)
            case "title":
                return [fx.Retitle(str(from_json(payload)))]
            case "commands":
                return [fx.Offer(from_json(payload))]
            case _:
                return []

    def _update(self, header: Header, payload: bytes) -> list[fx.Effect]:
        if self.turn is not None:
            if header.kind == "chunk":
                self.turn.shown[header.key] = int(header.status)
            elif header.key and header.status:
                self.turn.calls[header.key] = header.status
        return [fx.Publish(payload, len(payload))]

    def _answer(self, header: Header, payload: bytes) -> list[fx.Effect]:
        replay = self._replays.pop(header.key, None)
        error = RequestError.from_json(_decode(payload)) if header.status == "error" else None
        if replay is not None:
            return [fx.Fail(replay.ticket, error) if error else fx.Answer(replay.ticket, payload)]
        if self.turn is None or self.turn.turn_id != header.key:
            self._cancelled = [turn for turn in self._cancelled if turn.turn_id != header.key]
            return []
        return self._end_turn(payload, error)

    # How workers and turns end

    def swept(self) -> list[fx.Effect]:
        """Nothing of earlier epochs runs any more."""
        self._swept = True
        return [fx.SendControl(Swept())] if self.worker == "ready" else []

    def exited(self, reason: str, now: float, *, wanted: bool, boots_stopped: bool) -> list[fx.Effect]:
        """The worker is gone and can write no more.

        `wanted`: it was stopped in good order. `boots_stopped`: the server-wide breaker is open.
        """
        was, self.worker = self.worker, "none"
        ready_at, self._ready_at = self._ready_at, None
        if ready_at is not None:  # one that was never ready has started nothing that were to be swept
            self._swept = False
        if self.closed:
            return []
        if wanted:
            return self._spawn(0.0) if self.turn is not None or self._replays else []
        # One that is killed while it starts, where others started before it, is a death like any other.
        if was == "starting" and (boots_stopped or not self._booted):
            sentence = f"The session's process could not start ({reason}). See the log."
            if boots_stopped:
                sentence += " Processes of other sessions do not start either, so it is not tried again."
            return self._fail_all(sentence, reason="boot")
        self.last_death = reason
        lived = now - ready_at if ready_at is not None else 0.0
        progressed = ready_at is not None and self._records > 0
        delay = self.budget.on_death(progressed=progressed, lived=lived)
        if delay is None:
            self.failed = (
                f"The session's process died {self.budget.deaths} times in a row without progress, last: "
                f"{reason}. Load or resume the session to try again."
            )
            return self._fail_all(self.failed)
        effects: list[fx.Effect] = []
        if self.turn is not None and self.recover == "report":
            details = f"The session's process died ({reason}); the turn was not finished."
            effects += self._lose_turn(RequestError(INTERNAL_ERROR, details, reason=reason))
        if self.turn is not None and self.turn.delivered:
            self._notice = reason
        if self.worker == "none":
            effects += self._spawn(delay)
        return effects

    def cancel_overdue(self, turn_id: str) -> list[fx.Effect]:
        """The worker did not end a cancelled turn in time: the front does, and replaces one that is ready.

        What was typed is still delivered, to be recorded.
        """
        if self.turn is None or self.turn.turn_id != turn_id:
            return []
        self._cancelled.append(self.turn)
        effects = self._end_turn(self._cancelled_result(), None)
        if self.worker == "ready":
            self.worker = "ending"
            effects.append(fx.Kill("a cancel was not answered"))
        return effects

    @property
    def is_idle(self) -> bool:
        """Nothing needs the worker: no turn, no replay, no background task."""
        return self.turn is None and not self._replays and not self._cancelled and not self.background

    def hibernate(self) -> list[fx.Effect]:
        """Give the worker back, if nothing needs it; the next prompt starts another."""
        return self._stop("the session was idle") if self.worker == "ready" and self.is_idle else []

    def replace_worker(self) -> list[fx.Effect]:
        """The session's folders changed, and a worker has its own for life: another one for the next turn."""
        self._outdated = self.worker != "none"
        return self.hibernate()

    def close(self) -> list[fx.Effect]:
        """The session is closed for good: what is open is answered as cancelled, the worker goes."""
        self.closed = True
        effects = self._dialogs.void()
        for turn in self.turns():
            effects += turn.end_calls("The session was closed.")
            effects.append(fx.Answer(turn.ticket, self._cancelled_result()))
        self.turn = None
        self.waiting.clear()
        for replay in self._replays.values():
            details = "The session was closed while it was being loaded."
            effects.append(fx.Fail(replay.ticket, RequestError(INTERNAL_ERROR, details)))
        self._replays.clear()
        stops = self.worker in ("ready", "starting")
        return effects + (self._stop("the session was closed") if stops else [])

    def _cancelled_result(self) -> bytes:
        return encode(prompt_result("cancelled", USAGE_NONE, self.dialect))

    def agent_ends(self, error: RequestError) -> list[fx.Effect]:
        """The front is told to end: what is open is answered, and goes on if the session is loaded again."""
        effects = self._dialogs.void()
        for turn in self.turns():
            effects += turn.end_calls("The agent was told to end. The call may have had effect.")
            effects.append(fx.Fail(turn.ticket, error))
        self.turn = None
        self.waiting.clear()
        return effects

    def _begin(self, turn: OpenTurn) -> list[fx.Effect]:
        self.turn = turn
        if self.worker == "ready" and self._outdated and not self.background:
            return self._stop("the session's folders changed")
        return [turn.deliver()] if self.worker == "ready" else self._wake()

    def _stop(self, reason: str) -> list[fx.Effect]:
        self.worker = "ending"
        return [fx.StopWorker(reason)]

    def _wake(self) -> list[fx.Effect]:
        return self._spawn(0.0) if self.worker == "none" else []

    def _spawn(self, delay: float) -> list[fx.Effect]:
        self.worker = "starting"
        self._outdated = False
        self.epoch += 1
        return [fx.Spawn(self.epoch, delay)]

    def _end_turn(self, result: bytes, error: RequestError | None) -> list[fx.Effect]:
        turn = self.turn
        assert turn is not None
        self.turn = self._notice = None
        effects: list[fx.Effect] = turn.end_calls("The turn ended before the call did.")
        effects += self._dialogs.void()
        effects.append(fx.Fail(turn.ticket, error) if error else fx.Answer(turn.ticket, result))
        good = error is None and _decode(result).get("stopReason") == "end_turn"
        while self.waiting:
            following = self.waiting.popleft()
            if good:
                return effects + self._begin(following)
            effects.append(fx.Say(chunk("agent_message_chunk", f"\n[{TURN_DROPPED}]\n", uuid4().hex)))
            effects.append(fx.Answer(following.ticket, self._cancelled_result()))
        return effects

    def _lose_turn(self, error: RequestError) -> list[fx.Effect]:
        """The turn cannot go on. One that the user had cancelled ends as cancelled all the same."""
        if self.turn is None or not self.turn.cancelled:
            return self._end_turn(b"", error)
        self._cancelled.append(self.turn)
        return self._end_turn(self._cancelled_result(), None)

    def _fail_all(self, sentence: str, **data: str) -> list[fx.Effect]:
        error = RequestError(INTERNAL_ERROR, sentence, session_id=self.id, **data)
        effects = self._lose_turn(error) if self.turn is not None else []
        effects += [fx.Fail(replay.ticket, error) for replay in self._replays.values()]
        self._replays.clear()
        return effects


def _decode(payload: bytes) -> dict[str, Any]:
    decoded = from_json(payload)
    return decoded if isinstance(decoded, dict) else {}
