"""Histories that hypothesis makes up: of any records, and of ordinary turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from shared.records import ClearRecord, CompactionRecord
from tests.shared.histories import MODEL, call, end, grant, reply, result, start, text, thinking, user

if TYPE_CHECKING:
    from shared.records import Record

# Few turns and ids, some of them what repair makes up itself, so that they collide.
turns = st.sampled_from(["t1", "t2", "t3"])
ids = st.sampled_from(["c", "c_1", "c_2", "c_3", "d", "", "b d", "\ud800"])
words = st.sampled_from(["", "  ", "hello", "\ud83d", "ünï", "NaN"])
inputs: st.SearchStrategy[Any] = st.recursive(
    st.one_of(words, st.none(), st.integers(), st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(words, inner, max_size=2)),
    max_leaves=4,
)


@st.composite
def some_block(draw: st.DrawFn) -> dict[str, Any]:
    match draw(st.integers(0, 5)):
        case 0:
            return text(draw(words))
        case 1:
            return {**call(draw(ids), draw(words)), "input": draw(inputs)}
        case 2:
            return thinking(draw(words), draw(words))
        case 3:
            return draw(st.sampled_from([{}, {"type": "image"}, {"type": "text"}, {"type": 5}]))
    return call(draw(ids))


@st.composite
def some_record(draw: st.DrawFn) -> Record:
    turn = draw(turns)
    match draw(st.integers(0, 9)):
        case 0:
            return user(turn, *draw(st.lists(some_block(), max_size=3)))
        case 1:
            return end(turn)
        case 2:
            return grant()
        case 3:
            return CompactionRecord(epoch=0, time=0.0, summary=draw(words))
        case 4:
            return ClearRecord(epoch=0, time=0.0)
        case 5:
            return start(turn, draw(ids))
        case 6 | 7:
            parent = draw(st.sampled_from([None, None, None, "c"]))
            return result(turn, draw(ids), draw(words), parent_call_id=parent)
    message = draw(st.sampled_from(["m1", "m2", "m3", "m4"]))
    model = draw(st.sampled_from([MODEL, "another"]))
    return reply(turn, *draw(st.lists(some_block(), max_size=4)), message_id=message, model=model)


@st.composite
def ordinary_turn(draw: st.DrawFn) -> list[Record]:
    turn = draw(turns)
    asked = draw(st.lists(ids, max_size=3))
    ran = [record for one in asked for record in (start(turn, one), result(turn, one))]
    calls = [reply(turn, thinking("hm"), text("so"), *map(call, asked)), *ran] if asked else []
    return [user(turn), *calls, reply(turn, text("done")), end(turn)]


histories: st.SearchStrategy[list[Record]] = st.one_of(
    st.lists(some_record(), max_size=20),
    st.lists(ordinary_turn(), max_size=4).map(lambda all_: [record for one in all_ for record in one]),
)
