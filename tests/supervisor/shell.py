"""A stand-in for the hands of a session's state machine: carries out effects, and holds each to the rules.

It plays client, worker and clock at once, without a process or a sleep. Every rule of the product that an
effect could break is an assertion here, so that any sequence of events can be run against all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from shared.frames import Cancel, Header, Open, Prompt, Replay, Reply, Swept
from supervisor import effects as fx
from supervisor.session import MAX_WAITING, Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.frames import DataToWorker, ToWorker

ENDED = ("completed", "failed")


@dataclass
class Asked:
    """A prompt as its client knows it: `answer` is its stop reason or `error`, once there is one."""

    ticket: fx.Ticket
    blocks: list[dict[str, Any]]
    turn_id: str = ""
    answer: str | None = None
    ran: bool = False


@dataclass
class Epoch:
    """A worker as the front should know it."""

    number: int
    ready: bool = False
    killed: bool = False
    stopped: bool = False
    got: list[DataToWorker] = field(default_factory=list)
    controls: list[ToWorker] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)

    def running(self) -> str | None:
        """The turn that a worker which takes one at a time is at."""
        turns = [frame.turn_id for frame in self.got if isinstance(frame, Prompt)]
        return next((turn for turn in turns if turn not in self.answered), None)

    def replaying(self) -> list[str]:
        """Replays that it has to answer."""
        frames = (frame.request_id for frame in self.got if isinstance(frame, Replay))
        return [request_id for request_id in frames if request_id not in self.answered]


class Shell:
    """One session with everything around it."""

    def __init__(self, **changed: Any) -> None:
        fields: dict[str, Any] = {
            "id": "s",
            "epoch": 0,
            "options": {"mode": "default"},
            "directories": [],
            "recover": "continue",
            "cancel_within": 2.0,
            "dialect": "both",
        }
        self.machine = Session(**{**fields, **changed})
        self.now = 0.0
        self.prompts: list[Asked] = []
        self.replays: dict[fx.Ticket, str | None] = {}
        self.epoch: Epoch | None = None
        self.dead: list[Epoch] = []
        self.open_keys: dict[str, str] = {}
        """Requests that the client has not answered, with what was asked."""
        self.asked_keys: list[str] = []
        self.calls: dict[str, str] = {}
        """Status of each call that the client was told of."""
        self.lines: list[bytes] = []
        self.replayed: dict[fx.Ticket, list[int]] = {}
        self.timers: list[fx.SetTimer] = []
        self.titles: list[str] = []
        self.said: list[dict[str, Any]] = []
        self._previous: Asked | None = None

    @property
    def has_worker(self) -> bool:
        """Whether there is one, ready or not."""
        return self.epoch is not None

    # What happens to the machine

    def prompt(self, text: str = "do it") -> Asked:
        """A client prompts."""
        asked = Asked(fx.Ticket(1, len(self.prompts)), [{"type": "text", "text": text}])
        self.prompts.append(asked)
        effects = self.machine.prompt(asked.ticket, asked.blocks, {})
        for turn in [*([self.machine.turn] if self.machine.turn else []), *self.machine.waiting]:
            if turn.ticket is asked.ticket:
                asked.turn_id = turn.turn_id
        self.do(effects)
        return asked

    def cancel(self) -> None:
        """A client cancels."""
        self.do(self.machine.cancel())

    def load(self) -> fx.Ticket:
        """A client loads the session."""
        ticket = fx.Ticket(1, f"load {len(self.replays)}")
        self.replays[ticket], self.replayed[ticket] = None, []
        self.machine.revive()
        self.do(self.machine.replay(ticket))
        return ticket

    def ready(self) -> Epoch:
        """The worker's loop runs."""
        assert self.epoch is not None
        self.epoch.ready = True
        self.do(self.machine.ready(self.now))
        return self.epoch

    def up(self) -> Epoch:
        """The worker is ready, whatever it was before."""
        assert self.epoch is not None
        return self.epoch if self.epoch.ready else self.ready()

    def frame(
        self, kind: Any, key: str = "", status: str = "", payload: Any = None, records: int = 0
    ) -> None:
        """The worker says something."""
        assert self.epoch is not None
        line = payload if isinstance(payload, bytes) else to_json(payload)
        if kind == "answer":
            self.epoch.answered.add(key)
        lines = len(self.lines)
        self.do(self.machine.frame(Header(kind, key, status, records), line))
        if kind == "update" and status and len(self.lines) > lines:
            self.calls[key] = status

    def call(self, call_id: str, status: str = "pending", records: int = 0) -> None:
        """The worker tells of a tool call."""
        self.frame("update", call_id, status, b"{}\n", records)

    def end(self, turn_id: str, stop_reason: str = "end_turn", records: int = 0) -> None:
        """The worker answers a turn."""
        self.frame("answer", turn_id, "", {"stopReason": stop_reason, "usage": {}}, records)

    def fail(self, turn_id: str) -> None:
        """The worker answers a turn with an error."""
        error = {"code": -32603, "message": "Internal error", "data": {"details": "the disk is full"}}
        self.frame("answer", turn_id, "error", error)

    def reply(self, key: str, result: Any = "yes") -> None:
        """The client answers a request."""
        self.open_keys.pop(key, None)
        self.do(self.machine.client_answered(key, result, None))

    def die(self, reason: str = "SIGKILL", *, wanted: bool = False, boots_stopped: bool = False) -> None:
        """The worker is gone."""
        assert self.epoch is not None
        self.dead.append(self.epoch)
        self.epoch = None
        self.do(self.machine.exited(reason, self.now, wanted=wanted, boots_stopped=boots_stopped))

    def overdue(self) -> None:
        """The oldest timer fires."""
        timer = self.timers.pop(0)
        kind, _, turn_id = timer.name.partition(":")
        assert kind == "cancel"
        self.do(self.machine.cancel_overdue(turn_id))

    def take_up(self) -> Asked | None:
        """The front goes on with a turn that an earlier one left open; None if a client was quicker."""
        effects = self.machine.take_up(f"earlier {len(self.prompts)}")
        turn = self.machine.turn
        if turn is None or turn.ticket in {asked.ticket for asked in self.prompts}:
            assert effects == []
            return None
        asked = Asked(turn.ticket, [], turn.turn_id)
        self.prompts.append(asked)
        self.do(effects)
        return asked

    # What the machine wants done

    def do(self, effects: Iterable[fx.Effect]) -> None:
        """Carry out, and check."""
        for effect in effects:
            self._do(effect)
        assert len(self.machine.waiting) <= MAX_WAITING

    def _do(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Spawn(number, delay):
                assert self.epoch is None, "a worker is started beside another"
                assert not self.dead or number > self.dead[-1].number, "an epoch comes twice"
                assert delay >= 0
                self.epoch = Epoch(number)
            case fx.SendData(frame):
                self._send_data(frame)
            case fx.SendControl(frame):
                epoch = self._reachable()
                assert not (
                    isinstance(frame, Swept) and any(isinstance(c, Swept) for c in epoch.controls[-1:])
                )
                epoch.controls.append(frame)
            case fx.Kill():
                assert self.epoch is not None
                self.epoch.killed = True
            case fx.StopWorker():
                assert self.epoch is not None
                self.epoch.stopped = True
            case fx.Answer(ticket, result):
                self._answered(ticket, from_json(result).get("stopReason", "loaded"))
            case fx.Fail(ticket, error):
                assert error.data, "an error says nothing to a person"
                self._answered(ticket, "error")
            case fx.AskClient(key, method, _):
                assert key not in self.open_keys, "the client sees two dialogs for one request"
                self.open_keys[key] = method
                self.asked_keys.append(key)
            case fx.WithdrawFromClient(key):
                assert key in self.open_keys, "what is not open is withdrawn"
                del self.open_keys[key]
            case fx.Say(update):
                self.said.append(update)
                if update["sessionUpdate"] == "tool_call_update":
                    assert self.calls[update["toolCallId"]] not in ENDED, "a call ends twice"
                    self.calls[update["toolCallId"]] = update["status"]
            case fx.Publish(line, owed):
                assert owed == len(line), "the worker's credit leaks"
                assert self.epoch is not None
                assert not self.epoch.killed, "an update comes after its turn was answered"
                self.lines.append(line)
            case fx.PublishTo(ticket):
                assert self.replays[ticket] is None, "a replay goes on after its answer"
            case fx.SetTimer():
                self.timers.append(effect)
            case fx.Retitle(title):
                self.titles.append(title)

    def _reachable(self) -> Epoch:
        assert self.epoch is not None, "a frame for nobody"
        assert self.epoch.ready, "a frame for a worker that is not ready"
        assert not self.epoch.killed, "a frame for a worker that was killed"
        return self.epoch

    def _send_data(self, frame: DataToWorker) -> None:
        epoch = self._reachable()
        assert isinstance(frame, Open) == (not epoch.got), "Open is the first frame, and comes once"
        epoch.got.append(frame)
        match frame:
            case Prompt():
                turns = [got.turn_id for got in epoch.got if isinstance(got, Prompt)]
                assert len(turns) == len(set(turns)), "a turn comes twice to one epoch"
                self._delivered(frame, epoch)
            case Reply():
                assert frame.key in self.asked_keys
            case _:
                pass

    def _delivered(self, frame: Prompt, epoch: Epoch) -> None:
        asked = next(asked for asked in self.prompts if asked.turn_id == frame.turn_id)
        assert frame.blocks == asked.blocks, "a turn changes from epoch to epoch"
        if asked.answer is not None:
            # Answered by the front as cancelled: delivered to be recorded, never to be run.
            assert asked.answer == "cancelled"
            assert Cancel(turn_id=frame.turn_id) in epoch.controls
        elif not asked.ran:
            asked.ran = True
            running = [other for other in self.prompts if other.ran and other is not asked]
            assert all(other.answer is not None for other in running), "two turns run at once"

    def _answered(self, ticket: fx.Ticket, answer: str) -> None:
        if ticket in self.replays:
            assert self.replays[ticket] is None, "a load is answered twice"
            self.replays[ticket] = answer
            return
        asked = next(asked for asked in self.prompts if asked.ticket is ticket)
        assert asked.answer is None, "a prompt is answered twice"
        asked.answer = answer
        if (
            asked.turn_id
            and asked.turn_id not in {turn.turn_id for turn in self.machine.waiting}
            and asked.ran
        ):
            still = [call_id for call_id, status in self.calls.items() if status not in ENDED]
            assert not still, f"the turn is over and calls run for ever: {still}"
            assert not self.open_keys, "the turn is over and dialogs stay open"
