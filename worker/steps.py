"""What a turn does next, told from its records alone: so a new epoch goes on where the last one died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.records import AssistantRecord, ToolResultRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.records import Record

MAX_REQUESTS: Final = 100
"""Model requests of one turn."""
MAX_CUT_REPLIES: Final = 2
"""How often a reply may end at the output limit in the middle of a tool call before the turn does."""
REPEATS_TOLD: Final = 5
REPEATS_ENDED: Final = 8
"""The same call with the same input this often in a row: the model is told, then the turn ends."""

_CUT: Final = ("max_tokens", "model_context_window_exceeded")
_STOP_REASONS: Final = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class AskModel:
    """The model's turn to speak."""


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Tool calls (the API's tool_use blocks) that have no result yet.

    `cut`: the reply ended at the output limit, so the last call may be half of what was meant.
    `repeated`: how often in a row this very call was made, itself included.
    """

    calls: list[dict[str, Any]]
    malformed: dict[str, str]
    cut: bool
    repeated: int


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over, with ACP's stop reason."""

    stop_reason: str


Step = AskModel | RunCalls | Done


def next_step(turn: Sequence[Record]) -> Step:
    """The step after a turn's records."""
    replies = [record for record in turn if isinstance(record, AssistantRecord)]
    if not replies:
        return AskModel()
    last = replies[-1]
    calls = tool_uses(last)
    if calls:
        ended = {record.call_id for record in turn if isinstance(record, ToolResultRecord)}
        open_calls = [call for call in calls if call["id"] not in ended]
        if open_calls:
            return RunCalls(open_calls, last.malformed, last.stop_reason in _CUT, _repeats(replies))
        if _repeats(replies) >= REPEATS_ENDED:
            return Done("max_turn_requests")
        cut = sum(bool(tool_uses(reply)) and reply.stop_reason in _CUT for reply in replies)
        if cut > MAX_CUT_REPLIES:
            return Done("max_tokens")
    elif last.stop_reason != "pause_turn":
        return Done(_STOP_REASONS.get(last.stop_reason, "end_turn"))
    return AskModel() if len(replies) < MAX_REQUESTS else Done("max_turn_requests")


def tool_uses(reply: AssistantRecord) -> list[dict[str, Any]]:
    """The calls in a reply, in order."""
    return [block for block in reply.blocks if block.get("type") == "tool_use"]


def _repeats(replies: list[AssistantRecord]) -> int:
    def made(reply: AssistantRecord) -> list[tuple[Any, Any]]:
        return [(call.get("name"), call.get("input")) for call in tool_uses(reply)]

    newest = made(replies[-1])
    count = 0
    for reply in reversed(replies):
        if made(reply) != newest:
            break
        count += 1
    return count
