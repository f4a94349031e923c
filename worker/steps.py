"""What a turn does next, told from its records alone: so a new epoch goes on where the last one died."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from shared.records import AssistantRecord, ToolResultRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.records import Record

MAX_REQUESTS: Final = 100
"""Model requests of one turn."""
MAX_CUT_REPLIES: Final = 2
"""How often a reply may end at the output limit in the middle of a tool call before the turn does."""
MAX_PAUSES: Final = 10
"""How often in a row a reply may be a mere pause."""
REPEATS_TOLD: Final = 5
REPEATS_ENDED: Final = 8
"""The same calls with the same results this often in a row: the model is told, then the turn ends."""
_LONGEST_ROUND: Final = 8
"""Replies that are looked at as one when they come again in the same order."""
_WITH_CHANGES: Final = 4
"""Calls whose results differ each time may be made so many times as often: they wait for something."""

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
    `refused`: the service broke the reply off, and its calls are not to be run.
    `told`: the model is told that it makes the same calls again and again. `over`: the turn ends for that.
    """

    calls: list[dict[str, Any]]
    malformed: dict[str, str]
    cut: bool
    refused: bool
    told: bool
    over: bool


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
        results = {record.call_id: record for record in turn if isinstance(record, ToolResultRecord)}
        open_calls = [call for call in calls if call["id"] not in results]
        refused, repeated = last.stop_reason == "refusal", _repeats(replies, results)
        over = any(times >= REPEATS_ENDED for times in repeated)
        if open_calls:
            told = REPEATS_TOLD in repeated
            return RunCalls(open_calls, last.malformed, last.stop_reason in _CUT, refused, told, over)
        if refused:
            return Done("refusal")
        if over:
            return Done("max_turn_requests")
        cut = sum(bool(tool_uses(reply)) and reply.stop_reason in _CUT for reply in replies)
        if cut > MAX_CUT_REPLIES:
            return Done("max_tokens")
    elif last.stop_reason != "pause_turn":
        return Done(_STOP_REASONS.get(last.stop_reason, "end_turn"))
    elif len(replies) > MAX_PAUSES and all(r.stop_reason == "pause_turn" for r in replies[-MAX_PAUSES - 1 :]):
        return Done("max_turn_requests")
    return AskModel() if len(replies) < MAX_REQUESTS else Done("max_turn_requests")


def tool_uses(reply: AssistantRecord) -> list[dict[str, Any]]:
    """The calls in a reply, in order."""
    return [block for block in reply.blocks if block.get("type") == "tool_use"]


def _repeats(replies: list[AssistantRecord], results: Mapping[str, ToolResultRecord]) -> list[float]:
    """How often in a row the last calls were made, by several ways to count; whole where a round is whole."""
    made = [[(call.get("name"), call.get("input")) for call in tool_uses(reply)] for reply in replies]
    # Those of the last reply do not count: it is judged before it has any.
    shown = [_shown(reply, results) for reply in replies[:-1]]
    same = sum(1 for _ in takewhile(lambda calls: calls == made[-1], reversed(made)))
    return [same / _WITH_CHANGES, *(_rounds(made, shown, length) for length in range(1, _LONGEST_ROUND + 1))]


def _shown(reply: AssistantRecord, results: Mapping[str, ToolResultRecord]) -> list[Any]:
    """What the client was shown of its calls' results, in which there is no note for the model."""
    return [result.content for call in tool_uses(reply) if (result := results.get(call["id"]))]


def _rounds(made: Sequence[Any], shown: Sequence[Any], length: int) -> float:
    """How often in a row the last `length` replies made the same calls and saw the same."""
    back = 0
    last = len(made) - 1
    for at in range(last - length, -1, -1):
        if made[at] != made[at + length] or (at + length < last and shown[at] != shown[at + length]):
            break
        back += 1
    return 1 + back / length
