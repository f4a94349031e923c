"""Whole turns at the beginning of a history are passed over, and what is made of it stays the same."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.repair import repair
from shared.whole_turns import WholeTurns, whole_turns
from tests.shared.generated import histories, ids, some_record
from tests.shared.histories import call, end, grant, reply, result, start, text, user, whole_turn

if TYPE_CHECKING:
    from shared.records import Record

names = st.sampled_from(["t0", "t1", "t2", "t3", "t4"])
begun = st.lists(
    st.one_of(
        st.builds(whole_turn, names),
        st.builds(whole_turn, names, ids),
        st.builds(whole_turn, names, ids, ids),
        some_record().map(lambda record: [record]),
    ),
    max_size=6,
).map(lambda turns: [record for turn in turns for record in turn])


@given(begun, histories, st.sampled_from([None, "t1", "t4"]))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_repair_is_the_same_as_without(begun: list[Record], rest: list[Record], resuming: str | None) -> None:
    records = [*begun, *rest]
    made = repair(records, epoch=2, now=9.0, resuming=resuming)
    with patch("shared.binding.whole_turns", lambda _: WholeTurns(0, set(), set(), {}, set())):
        assert repair(records, epoch=2, now=9.0, resuming=resuming) == made


def _broken() -> dict[str, list[Record]]:
    once, called = user("t9"), reply("t9", call("c9"))
    return {
        "no end": [user("t9"), reply("t9", text("x"))],
        "a call without a result": [user("t9"), called, end("t9")],
        "a result without a call": [user("t9"), result("t9", "c9"), end("t9")],
        "an id of an earlier turn": whole_turn("t9", "c1"),
        "a start after which a call has its id": [start("t9", "c9"), *whole_turn("t9", "c9")],
        "a call that starts twice": [
            called,
            start("t9", "c9"),
            start("t9", "c9"),
            end("t9"),
        ],
        "a turn that goes on after its end": [end("t1")],
        "a turn within another": [user("t9"), user("t8"), end("t8"), end("t9")],
        "a blank text": [user("t9"), reply("t9", text(" ")), end("t9")],
        "a reply of nothing": [user("t9"), reply("t9"), end("t9")],
        "an id that the API refuses": whole_turn("t9", "c 9"),
        "a record that comes twice": [once, once, end("t9")],
    }


@pytest.mark.parametrize("broken", _broken().values(), ids=_broken())
def test_what_is_broken_and_all_after_it_is_left(broken: list[Record]) -> None:
    sound = [*whole_turn("t1", "c1", "c2"), grant(), *whole_turn("t2", "c3")]
    whole = whole_turns([*sound, *broken, *whole_turn("t7", "c7")])
    assert whole.records == len(sound)
    assert whole.turns == {"t1", "t2"}
    assert whole.call_ids == {"c1", "c2", "c3"}


def test_a_sub_agents_starts_and_results_break_nothing() -> None:
    within: list[Record] = [start("t1", "c1_1"), result("t1", "c1_1", parent_call_id="c1")]
    turn = whole_turn("t1", "c1")
    whole = whole_turns([*turn[:3], *within, *turn[3:]])
    assert whole.records == len(turn) + len(within)
    assert whole.traces == {("t1", "c1_1")}
