"""The records of a session's `history.jsonl`, one JSON object a line.

The file is append-only and written by the session's worker alone; a worker of a later epoch goes on
in the same file. Nothing is published to a client before the record that it follows from is durable.
Blocks are in the shape of the Anthropic Messages API, so that what was received (thinking and its
signature too) goes back byte for byte.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

FORMAT_VERSION: Final = 1
"""Written in each session's meta; a session of a later version is refused with a sentence."""

Block = dict[str, Any]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    epoch: int
    """The incarnation of the worker that wrote it."""
    time: float
    """Seconds since 1970, UTC."""


class _OfTurn(_Record):
    turn_id: str
    """Minted by the front for each prompt; a prompt delivered twice is one turn by this id."""


class UserRecord(_OfTurn):
    """What the user sent, made durable before the model is asked."""

    kind: Literal["user"] = "user"
    blocks: list[Block]


class AssistantRecord(_OfTurn):
    """A whole reply of the model, made durable before its tools run.

    `stop_reason` is the API's word, or `cancelled` for what had streamed when the user cancelled.
    `usage` is the request's, with the keys input, output, cache_read, cache_write.
    `malformed` maps the id of a tool_use whose JSON did not parse to the text that came.
    """

    kind: Literal["assistant"] = "assistant"
    message_id: str
    model: str
    blocks: list[Block]
    stop_reason: str
    usage: dict[str, int] = Field(default_factory=dict)
    malformed: dict[str, str] = Field(default_factory=dict)


class ToolStartRecord(_OfTurn):
    """A call with side effects is about to start; durable before it does.

    A start without a result means that the worker died in between: it may have had effect.
    """

    kind: Literal["tool_start"] = "tool_start"
    call_id: str
    tool: str


class ToolResultRecord(_OfTurn):
    """A call's end, durable before the model or the client sees it.

    `content` and `raw_output` are what the client was shown; `stamps` are digests by path of files
    read or written; `interrupted` marks a result that was made up for a call cut short.
    `parent_call_id` is set for a sub-agent's calls, which never go to the model of the session itself.
    """

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    tool: str
    text: str
    is_error: bool = False
    interrupted: bool = False
    content: list[dict[str, Any]] = Field(default_factory=list)
    raw_output: dict[str, Any] = Field(default_factory=dict)
    stamps: dict[str, str] = Field(default_factory=dict)
    usage: dict[str, int] = Field(default_factory=dict)
    """Tokens that a sub-agent spent in this call, with the keys of AssistantRecord.usage."""
    parent_call_id: str | None = None


class TurnEndRecord(_OfTurn):
    """The end of a turn, durable before its answer is sent.

    `stop_reason` is ACP's; with `error` (a JSON-RPC error object) the turn failed. `interrupted`
    marks a turn that no front was there to go on with.
    `usage` has ACP's keys inputTokens, outputTokens, totalTokens.
    """

    kind: Literal["turn_end"] = "turn_end"
    stop_reason: str
    usage: dict[str, int] = Field(default_factory=dict)
    error: dict[str, Any] | None = None
    interrupted: bool = False


class CommandRecord(_OfTurn):
    """The user ran a slash command; neither it nor what it said goes to the model."""

    kind: Literal["command"] = "command"
    text: str
    output: str


class GrantRecord(_Record):
    """The user answered "always" for a tool of this session. `scope` narrows it ("" is the whole tool)."""

    kind: Literal["grant"] = "grant"
    tool: str
    allow: bool
    scope: str = ""


class CompactionRecord(_Record):
    """All before it is replaced by `summary` for the model; the records themselves stay, for replay."""

    kind: Literal["compaction"] = "compaction"
    summary: str


class ClearRecord(_Record):
    """The user cleared the context: nothing before it goes to the model or is replayed."""

    kind: Literal["clear"] = "clear"


Record = (
    UserRecord
    | AssistantRecord
    | ToolStartRecord
    | ToolResultRecord
    | TurnEndRecord
    | CommandRecord
    | GrantRecord
    | CompactionRecord
    | ClearRecord
)

RECORD: Final[TypeAdapter[Record]] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])
"""Validates one line: `RECORD.validate_json(line)`."""
