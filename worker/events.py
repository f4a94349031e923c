"""What happens inside a turn, in the reference's terms; `updates` maps each to its ACP update."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the assistant's text; `message_id` is one per assistant message."""

    text: str
    message_id: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's thinking."""

    text: str
    message_id: str


@dataclass(frozen=True, slots=True)
class ToolUseStart:
    """A tool call is announced. `status` is `in_progress` only if it runs at once."""

    call_id: str
    title: str
    kind: str
    status: Literal["pending", "in_progress"]
    raw_input: dict[str, Any]
    locations: list[dict[str, Any]] = field(default_factory=list)
    content: list[dict[str, Any]] = field(default_factory=list)
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A call began to run (`in_progress`), or shows more of its output."""

    call_id: str
    raw_input: dict[str, Any] | None = None
    content: list[dict[str, Any]] | None = None
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A call ended."""

    call_id: str
    status: Literal["completed", "failed"]
    content: list[dict[str, Any]]
    raw_output: dict[str, Any]
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Compaction:
    """The context was compacted; `text` tells the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Error:
    """Something the user must know; the turn may fail or go on. Also used for notices of a restart."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The agent's plan: entries of `{content, priority, status}`."""

    entries: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class UsageChanged:
    """Context tokens in use, the window's size, and what it cost in US dollars where that is known."""

    used: int
    size: int
    cost: float | None = None


Event = (
    TextDelta
    | ThinkingDelta
    | ToolUseStart
    | ToolProgress
    | ToolResult
    | Compaction
    | Error
    | PlanChanged
    | UsageChanged
)
