"""The frames that the front and a worker exchange, and how each looks on the link.

Two ZeroMQ pairs connect them. *Control* is small and always flows: life signs, cancel, credit. *Data*
carries all that is bound for a client, in order, and what a client sent to a session. A worker's data
frame is a header and a payload of finished JSON bytes, so the front knows what is open in a session
without parsing a line. Nothing that matters lives only here: ZeroMQ loses what a killed process had
queued, so workers write to disk first.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import from_json, to_json

from shared.mcp_servers import McpServerList


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True)

    def encode(self) -> bytes:
        """One ZeroMQ message part."""
        return to_json(self)


# Control, worker → front


class Hello(_Frame):
    """The first frame on each pair. A worker is reachable when both have arrived."""

    kind: Literal["hello"] = "hello"
    pid: int


class Ready(_Frame):
    """The worker's loop runs. Sent before history is read."""

    kind: Literal["ready"] = "ready"


class Ack(_Frame):
    """The answer of the worker's own loop to `Ping` number `n`."""

    kind: Literal["ack"] = "ack"
    n: int
    background: int = 0
    """Background tasks that run in the worker."""


# Control, front → worker


class Ping(_Frame):
    """Asks the worker's loop for a sign of life."""

    kind: Literal["ping"] = "ping"
    n: int


class Cancel(_Frame):
    """End a turn. Remembered if the turn's prompt has not arrived yet."""

    kind: Literal["cancel"] = "cancel"
    turn_id: str


class Configure(_Frame):
    """The session's options changed; holds from the next model request or permission decision on."""

    kind: Literal["configure"] = "configure"
    options: dict[str, str]


class Credit(_Frame):
    """The worker may send this many more payload bytes: of live updates, or of the replay of that id."""

    kind: Literal["credit"] = "credit"
    octets: int
    replay: str = ""


class Swept(_Frame):
    """Nothing of earlier epochs runs any more: tools may start."""

    kind: Literal["swept"] = "swept"


class Shutdown(_Frame):
    """End: tools first, then the process. A running turn stays open in the history."""

    kind: Literal["shutdown"] = "shutdown"


ToFront = Hello | Ready | Ack
ToWorker = Ping | Cancel | Configure | Credit | Swept | Shutdown

TO_FRONT: Final[TypeAdapter[ToFront]] = TypeAdapter(Annotated[ToFront, Field(discriminator="kind")])
TO_WORKER: Final[TypeAdapter[ToWorker]] = TypeAdapter(Annotated[ToWorker, Field(discriminator="kind")])


# Data, front → worker


class Open(_Frame):
    """The first data frame to a worker: what session it is, and what it may do."""

    kind: Literal["open"] = "open"
    options: dict[str, str]
    """`mode`, `model`, `thinking`."""
    directories: list[str] = Field(default_factory=list)
    """additionalDirectories, absolute."""
    resuming: str | None = None
    """The turn that an earlier epoch left open and that will be delivered again."""
    calls: dict[str, str] = Field(default_factory=dict)
    """Status by id of every tool call of the open turn that the client was told of."""
    shown: dict[str, int] = Field(default_factory=dict)
    """Characters by chunk key that the client was sent of the open turn's newest messages."""
    swept: bool = True
    """False: tools of an earlier epoch may still run; wait for `Swept` before starting one."""
    restarted: str | None = None
    """Why the earlier epoch died, in a phrase, if it did."""
    mcp_servers: McpServerList = []
    """Those that the client gave; the worker adds those of the settings."""


class Servers(_Frame):
    """A client opened the session with other MCP servers: these instead of those of `Open`."""

    kind: Literal["servers"] = "servers"
    mcp_servers: McpServerList


class Prompt(_Frame):
    """A turn. Delivered again to each epoch until it is answered."""

    kind: Literal["prompt"] = "prompt"
    turn_id: str
    blocks: list[dict[str, Any]]
    """ACP content blocks, validated."""
    capabilities: dict[str, Any] = Field(default_factory=dict)
    """Those of the client that prompted, as it sent them."""


class Replay(_Frame):
    """Send the history as updates, then answer `request_id` with `{}`."""

    kind: Literal["replay"] = "replay"
    request_id: str
    skip: int = 0
    """Updates of this replay that the client has from an earlier epoch."""


class Reply(_Frame):
    """A client's answer to a request of this session: its `result` or its `error`."""

    kind: Literal["reply"] = "reply"
    key: str
    result: Any = None
    error: dict[str, Any] | None = None


DataToWorker = Open | Servers | Prompt | Replay | Reply
DATA_TO_WORKER: Final[TypeAdapter[DataToWorker]] = TypeAdapter(
    Annotated[DataToWorker, Field(discriminator="kind")]
)


# Data, worker → front


class Header(NamedTuple):
    """What the front must know of a data frame without reading its payload.

    kind `update`: payload is a whole JSON-RPC line; for a tool call's update `key` is its toolCallId and
    `status` its new status (may be empty). `chunk`: the same for a piece of text; `key` names message
    and kind, `status` is the number of characters sent under that key so far. `replay`: a line for the
    client that asked for replay `key` only; `status` counts them. `request`: `key` names the request
    (the same in each epoch, so it is asked once), `status` is the method, payload its params.
    `withdraw`: the request `key` is void. `answer`: `key` is the turn or request id, payload the result,
    or with status `error` the error object. `title`: payload is the session's new title as a JSON
    string. `commands`: payload is the list of ACP commands that the session has beside the built-in ones.
    `records` counts the durable records of this epoch: progress.
    """

    kind: Literal["hello", "update", "chunk", "replay", "request", "withdraw", "answer", "title", "commands"]
    key: str = ""
    status: str = ""
    records: int = 0

    def encode(self) -> bytes:
        """The first part of the message."""
        return to_json(tuple(self))

    @classmethod
    def decode(cls, part: bytes) -> Header:
        """Raises ValueError for a part that is no header."""
        fields = from_json(part)
        if not (isinstance(fields, list) and len(fields) == len(cls._fields)):
            raise ValueError("not a header")
        header = cls(*fields)
        # The front computes with these; a worker whose memory is broken must not end it.
        if not (all(isinstance(text, str) for text in header[:3]) and isinstance(header.records, int)):
            raise ValueError("not a header")
        number = {"hello": header.key, "chunk": header.status, "replay": header.status}.get(header.kind, "0")
        if not (number.isdecimal() and len(number) < 20):
            raise ValueError("not a header")
        return header


class WorkerSpec(_Frame):
    """What a worker is started with: a line on its spawn pipe, never a command line or environment."""

    session_id: str
    epoch: int
    identity: str
    """32 hex digits: the routing identity of this epoch. Secret within the front's runtime folder."""
    control: str
    data: str
    """`ipc://` endpoints."""
    session_dir: str
    cwd: str
    dialect: Literal["both", "acp"] = "both"
    sdk: bool = True
    """The session's model is asked through the SDK, so a zygote that has not imported it does so first."""
    log: str
    """The log file that stray prints, warnings and stack dumps go to."""
    lifeline_fd: int
    """Readable at end of file when the front is gone."""
    lock_fd: int
    """The session's lock, shared with the front; -1 where a test has none."""
