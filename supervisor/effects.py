"""What the state machines want done: they decide, thin shells carry it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared.errors import RequestError
    from shared.frames import DataToWorker, ToWorker


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One request of one client, answered exactly once. Compared by identity: ids may be used twice."""

    connection: int
    id: Any
    method: str = ""


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a worker of this epoch, after `delay` seconds."""

    epoch: int
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class SendControl:
    """To the session's worker."""

    frame: ToWorker


@dataclass(frozen=True, slots=True)
class SendData:
    """To the session's worker."""

    frame: DataToWorker


@dataclass(frozen=True, slots=True)
class Publish:
    """A finished line for every client that has the session; `owed` octets of credit go back when read."""

    line: bytes
    owed: int = 0


@dataclass(frozen=True, slots=True)
class PublishTo:
    """A finished line of the replay `replay` for the client that asked for it."""

    ticket: Ticket
    line: bytes
    replay: str


@dataclass(frozen=True, slots=True)
class Say:
    """A standard update, to be made a line, for every client that has the session."""

    update: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """A client's request succeeded; `result` is encoded JSON."""

    ticket: Ticket
    result: bytes


@dataclass(frozen=True, slots=True)
class Fail:
    """A client's request failed."""

    ticket: Ticket
    error: RequestError


@dataclass(frozen=True, slots=True)
class AskClient:
    """A request to the session's clients; `params` is encoded JSON."""

    key: str
    method: str
    params: bytes


@dataclass(frozen=True, slots=True)
class WithdrawFromClient:
    """A request to the session's clients is void."""

    key: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the session's worker now; `reason` is recorded before the signal."""

    reason: str


@dataclass(frozen=True, slots=True)
class StopWorker:
    """End the session's worker in good order: message, then signals."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call the session's `on_timer(name)` after `delay` seconds, unless the turn has ended."""

    name: str
    delay: float


@dataclass(frozen=True, slots=True)
class Retitle:
    """The session has a title."""

    title: str


@dataclass(frozen=True, slots=True)
class Offer:
    """The session has these ACP commands beside the built-in ones."""

    commands: list[dict[str, Any]]


Effect = (
    Spawn
    | SendControl
    | SendData
    | Publish
    | PublishTo
    | Say
    | Answer
    | Fail
    | AskClient
    | WithdrawFromClient
    | Kill
    | StopWorker
    | SetTimer
    | Retitle
    | Offer
)
