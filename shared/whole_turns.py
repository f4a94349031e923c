"""The whole turns that a history begins with: in them nothing needs repair, nor in most histories at all.

A pass over them that only looks takes half the time of `shared.binding`, which makes calls of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from shared.blocks import clean_name, usable_prompt, usable_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.records import AssistantRecord, Record


class WholeTurns(NamedTuple):
    """The first `records` of a history, and what must be known of them to bind those that follow."""

    records: int
    turns: set[str]
    call_ids: set[str]
    replies: dict[str, AssistantRecord]
    """By message id."""
    traces: set[tuple[str, str]]
    """Turn and call id of starts that are of no call here: a sub-agent's."""


def whole_turns(records: Sequence[Record]) -> WholeTurns:
    """All turns up to the first with something in it that is not as it should be.

    Each comes in one piece and has its end; each call its own id, at most one start, and a result before
    the next reply; each block is one that the API takes; and no record comes twice in a row.
    """
    whole = WholeTurns(0, set(), set(), {}, set())
    done = 0
    turn: str | None = None
    # Of the turn that is looked at:
    replies: dict[str, AssistantRecord] = {}
    ids: set[str] = set()
    strays: set[str] = set()
    waiting: dict[str, bool] = {}  # whether each call that has no result yet has started
    last: Record | None = None
    for number, record in enumerate(records, 1):
        if last is not None and last.time == record.time and last == record:
            break
        last = record
        if record.kind == "grant" or record.kind == "compaction" or record.kind == "clear":
            continue
        if record.turn_id != turn:
            if turn is not None or record.turn_id in whole.turns:
                break
            turn = record.turn_id
        if record.kind == "tool_start":
            started = waiting.get(record.call_id)
            if started:
                break
            if started is None:
                strays.add(record.call_id)
            else:
                waiting[record.call_id] = True
        elif record.kind == "tool_result":
            if record.parent_call_id is None and waiting.pop(record.call_id, None) is None:
                break
        elif record.kind == "assistant":
            calls = _calls(record)
            if calls is None or waiting or record.message_id in replies or record.message_id in whole.replies:
                break
            replies[record.message_id] = record
            for call_id in calls:
                waiting[call_id] = False
            if not (ids.isdisjoint(calls) and whole.call_ids.isdisjoint(calls) and strays.isdisjoint(calls)):
                break
            ids.update(calls)
        elif record.kind == "user":
            if usable_prompt(record.blocks) is not record.blocks:
                break
        elif record.kind == "turn_end":
            if waiting:
                break
            done = number
            whole.turns.add(turn)
            whole.call_ids.update(ids)
            whole.replies.update(replies)
            whole.traces.update((turn, call_id) for call_id in strays)
            turn, replies, ids, strays = None, {}, set(), set()
    return whole._replace(records=done)


def _calls(reply: AssistantRecord) -> list[str] | None:
    """The ids of a reply's calls, each once; None if it is not one that the API takes back as it is."""
    if not reply.blocks or usable_reply(reply.blocks) is not reply.blocks:
        return None
    ids: list[str] = [block.get("id", "") for block in reply.blocks if block["type"] == "tool_use"]
    sound = all(id_ and clean_name(id_) == id_ for id_ in ids) and len(set(ids)) == len(ids)
    return ids if sound else None
