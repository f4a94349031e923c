"""What goes to the model from a history that grows is what it is from the whole of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic_core import to_json

from shared.records import ClearRecord, CompactionRecord
from shared.repair import repair, to_messages
from tests.shared.generated import histories
from tests.shared.histories import MODEL, call, end, reply, result, start, text, thinking, user, whole_turn
from worker.context import SHRUNK, cut_results
from worker.conversation import Conversation

if TYPE_CHECKING:
    from shared.records import Record

LARGE = "x" * 2 * SHRUNK
REFUSED = {"code": -32602, "message": "Invalid params", "data": {"prompt": "too long"}}


def anew(records: list[Record], model: str, window: int) -> list[dict[str, object]]:
    """Made from the start, as a worker does that has just loaded the history."""
    context = Conversation().context(records, window)
    return cut_results(to_messages(records, model), context.limits)


def turn(number: int, kind: str) -> list[Record]:
    name = f"new{number}"
    compacted = CompactionRecord(epoch=1, time=0.0, summary="so far")
    calls = [call(f"{name}-{n}") for n in range(3)]
    ran = [record for one in calls for record in (start(name, one["id"]), result(name, one["id"], LARGE))]
    match kind:
        case "compacted before":
            return [compacted, *whole_turn(name, f"{name}-c")]
        case "compacted within":
            return [user(name), reply(name, *calls), *ran, compacted, reply(name, text("done")), end(name)]
        case "cleared":
            return [ClearRecord(epoch=1, time=0.0)]
        case "refused":
            return [user(name, text(LARGE)), replace(end(name), error=REFUSED)]
        case "cancelled":
            return [user(name), reply(name, thinking("hm")), end(name, "cancelled")]
    return [user(name), reply(name, thinking("hm"), *calls), *ran, reply(name, text("done")), end(name)]


kinds = st.sampled_from(
    ["ordinary"] * 3 + ["compacted before", "compacted within", "cleared", "refused", "cancelled"]
)


@given(histories, st.lists(kinds, max_size=6), st.sampled_from([10**6, 2_000]))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_it_is_the_same_as_from_the_whole_history(
    history: list[Record], then: list[str], window: int
) -> None:
    records = repair(history, epoch=1, now=1.0)
    conversation = Conversation()
    for number, kind in enumerate(then):
        for record in turn(number, kind):
            if record.kind == "assistant":  # so it is asked for
                assert conversation.messages(records, MODEL, window) == anew(records, MODEL, window)
            records.append(record)
    for model in (MODEL, "another", MODEL):
        assert conversation.messages(records, model, window) == anew(records, model, window)


def test_what_it_gave_before_stays_as_it_was() -> None:
    conversation = Conversation()
    records = [*whole_turn("t1", "c1"), user("t2")]
    before = conversation.messages(records, MODEL, 1_000_000)
    sent = to_json(before)
    for number in range(3):
        records += turn(number, "ordinary")
        conversation.messages(records, MODEL, 2_000)
    assert to_json(before) == sent


def test_the_messages_of_ended_turns_are_made_once() -> None:
    conversation = Conversation()
    records = [*whole_turn("t1", "c1"), *whole_turn("t2", "c2"), user("t3")]
    first = conversation.messages(records, MODEL, 1_000_000)
    records += [reply("t3", call("c3")), result("t3", "c3")]
    again = conversation.messages(records, MODEL, 1_000_000)
    assert all(one is other for one, other in zip(first[:-2], again, strict=False))
