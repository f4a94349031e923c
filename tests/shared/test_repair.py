"""After repair each call has one result and each turn an end; what was sound is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from pydantic_core import to_json

from shared.lines import encode
from shared.records import (
    AssistantRecord,
    ClearRecord,
    CompactionRecord,
    ToolResultRecord,
    TurnEndRecord,
    UserRecord,
)
from shared.repair import open_calls, repair, to_messages
from tests.shared.histories import (
    MODEL,
    broken_rule,
    call,
    end,
    grant,
    reply,
    result,
    start,
    text,
    thinking,
    user,
    whole_turn,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.records import Record


def repaired(records: Sequence[Record], resuming: str | None = None) -> list[Record]:
    """Repaired, and held to what always holds."""
    whole = repair(records, epoch=7, now=99.0, resuming=resuming)
    assert repair(whole, epoch=8, now=100.0, resuming=resuming) == whole
    assert broken_rule(to_messages(whole, MODEL)) is None
    return whole


def results(records: Sequence[Record]) -> list[ToolResultRecord]:
    return [record for record in records if isinstance(record, ToolResultRecord)]


def test_a_sound_history_is_not_touched() -> None:
    records: list[Record] = [
        *whole_turn("t1", "c1", "c2"),
        grant(),
        CompactionRecord(epoch=0, time=1.0, summary="so far"),
        *whole_turn("t2", "c3"),
        ClearRecord(epoch=0, time=2.0),
        *whole_turn("t3"),
    ]
    whole = repaired(records)
    assert len(whole) == len(records)
    assert all(new is old for new, old in zip(whole, records, strict=True))


def test_a_started_call_without_result_is_interrupted_and_may_have_had_effect() -> None:
    records: list[Record] = [user("t1"), reply("t1", call("c1"), call("c2")), start("t1", "c1")]
    whole = repaired(records, resuming="t1")
    (made,) = results(whole)
    assert (made.call_id, made.is_error, made.interrupted) == ("c1", True, True)
    assert (made.epoch, made.time) == (7, 99.0)
    assert "interrupted" in made.text
    assert "may have had effect" in made.text
    assert made.content == [{"type": "content", "content": {"type": "text", "text": made.text}}]
    assert whole[:3] == records


def test_what_the_resumed_turn_had_not_started_is_left_open() -> None:
    records: list[Record] = [
        user("t1"),
        reply("t1", call("c1"), call("c2"), call("c3"), call("c4")),
        start("t1", "c1"),
        result("t1", "c1"),
        start("t1", "c2"),
    ]
    whole = repaired(records, resuming="t1")
    assert [block["id"] for block in open_calls(whole, "t1")] == ["c3", "c4"]
    assert not any(isinstance(record, TurnEndRecord) for record in whole)


def test_only_the_last_reply_of_the_resumed_turn_may_have_open_calls() -> None:
    records: list[Record] = [user("t1"), reply("t1", call("c1")), reply("t1", call("c2"))]
    whole = repaired(records, resuming="t1")
    assert [(made.call_id, made.interrupted) for made in results(whole)] == [("c1", True)]
    assert "not run" in results(whole)[0].text
    assert [block["id"] for block in open_calls(whole, "t1")] == ["c2"]


def test_a_turn_that_nobody_resumes_is_ended_after_its_results() -> None:
    records: list[Record] = [
        user("t1"),
        reply("t1", call("c1"), call("c2")),
        start("t1", "c1"),
        grant(),
        *whole_turn("t2"),
    ]
    whole = repaired(records)
    kinds = ["user", "assistant", "tool_start", "grant", "tool_result", "tool_result", "turn_end"]
    assert [record.kind for record in whole[:7]] == kinds
    made = whole[6]
    assert isinstance(made, TurnEndRecord)
    assert (made.turn_id, made.stop_reason, made.interrupted, made.epoch) == ("t1", "cancelled", True, 7)
    assert whole[7:] == records[4:]


def test_a_resumed_turn_that_has_ended_has_nothing_left_to_run() -> None:
    whole = repaired([user("t1"), reply("t1", call("c1")), end("t1", "cancelled")], resuming="t1")
    assert open_calls(whole, "t1") == []
    assert [record.kind for record in whole] == ["user", "assistant", "tool_result", "turn_end"]


def test_orphan_and_second_results_are_dropped() -> None:
    records = whole_turn("t1", "c1")
    doubled = [result("t0", "nobody"), *records[:4], result("t1", "c1", "again"), *records[4:]]
    assert [made.text for made in results(repaired(doubled))] == ["done"]


def test_a_call_whose_result_came_before_it_is_not_run_again() -> None:
    whole = repaired([user("t1"), result("t1", "c1"), reply("t1", call("c1"))], resuming="t1")
    assert open_calls(whole, "t1") == []
    assert [made.interrupted for made in results(whole)] == [True]


@pytest.mark.parametrize("at", range(7))
def test_a_line_that_is_there_twice_counts_once(at: int) -> None:
    records: list[Record] = [*whole_turn("t1", "c1"), grant()]
    assert repaired([*records[: at + 1], *records[at:]]) == records


def test_a_reply_that_comes_again_later_counts_once() -> None:
    records = whole_turn("t1", "c1")
    assert repaired([*records[:4], records[1], *records[4:]]) == records


def test_what_was_typed_twice_stays_twice() -> None:
    records: list[Record] = [user("t1", text("go on")), user("t1", text("go on")), reply("t1", text("a"))]
    assert sum(isinstance(record, UserRecord) for record in repaired(records)) == 2


def test_ids_that_come_again_are_made_unique_with_their_results() -> None:
    records: list[Record] = []
    for turn in ("t1", "t2", "t3"):
        records += whole_turn(turn, "call_0", "call_1")
    whole = repaired(records)
    assert len({made.call_id for made in results(whole)}) == 6
    assert [made.text for made in results(whole)] == ["done"] * 6
    assert whole[:7] == records[:7]


def test_an_id_twice_in_a_reply_gives_two_calls() -> None:
    records: list[Record] = [
        user("t1"),
        reply("t1", call("c"), call("c", x=1), malformed={"c": "{"}),
        start("t1", "c"),
        result("t1", "c", "first"),
        start("t1", "c"),
        result("t1", "c", "second"),
    ]
    made = results(repaired(records, resuming="t1"))
    assert [one.text for one in made] == ["first", "second"]
    assert len({one.call_id for one in made}) == 2


def test_a_malformed_input_stays_with_its_call() -> None:
    records: list[Record] = [*whole_turn("t1", "c"), user("t2"), reply("t2", call("c"), malformed={"c": "{"})]
    renamed = repaired(records, resuming="t2")[-1]
    assert isinstance(renamed, AssistantRecord)
    assert renamed.malformed == {renamed.blocks[0]["id"]: "{"}


def test_a_result_of_a_later_turn_is_not_taken_for_an_earlier_call() -> None:
    records: list[Record] = [user("t1"), reply("t1", call("c")), *whole_turn("t2", "c")]
    made = results(repaired(records))
    assert [(one.turn_id, one.interrupted) for one in made] == [("t1", True), ("t2", False)]


def test_a_made_up_id_is_nobody_elses() -> None:
    records: list[Record] = [
        user("t1"),
        start("t1", "c_2"),
        reply("t1", call("c")),
        result("t1", "c"),
        reply("t1", call("c"), call("c_1"), call("c_2"), call("c_3")),
    ]
    repaired(records, resuming="t1")


@pytest.mark.parametrize("call_id", ["", "with space", "ünï", "x" * 300, None, 5, ["a"], "\ud800"])
def test_ids_that_the_api_refuses_are_replaced(call_id: Any) -> None:
    records: list[Record] = [user("t1"), reply("t1", call(call_id), call("ok"))]
    if isinstance(call_id, str):
        records = [*records, result("t1", call_id, "mine")]
    made = results(repaired(records))
    assert len(made) == 2
    if isinstance(call_id, str):
        assert made[0].text == "mine"


def test_a_sub_agents_results_belong_to_its_parent() -> None:
    of_sub = result("t1", "s1", parent_call_id="c1")
    records: list[Record] = [
        user("t1"),
        reply("t1", call("c1", "agent")),
        start("t1", "c1"),
        start("t1", "s1"),
        of_sub,
    ]
    whole = repaired(records)
    assert of_sub in whole
    assert [made.call_id for made in results(whole)] == ["s1", "c1"]
    assert results(whole)[1].interrupted
    assert "s1" not in str(to_messages(whole, MODEL))


def test_a_sub_agents_results_follow_a_parent_that_is_renamed() -> None:
    second = whole_turn("t2", "c")
    records: list[Record] = [
        *whole_turn("t1", "c"),
        *second[:3],
        result("t2", "s1", parent_call_id="c"),
        *second[3:],
    ]
    made = results(repaired(records))
    assert [one.call_id for one in made[:2]] == ["c", "s1"]
    assert made[1].parent_call_id == made[2].call_id != "c"


BAD_BLOCKS: dict[str, dict[str, Any]] = {
    "empty text": text(""),
    "blank text": text(" \n\t\u00a0"),
    "text that is none": {"type": "text", "text": 5},
    "unsigned thinking": thinking("hm", ""),
    "thinking without signature": {"type": "thinking", "thinking": "hm"},
    "thinking that is none": {"type": "thinking", "thinking": None, "signature": "s"},
    "redacted without data": {"type": "redacted_thinking"},
    "a call without a name": call("c1", ""),
    "a result in a reply": {"type": "tool_result", "tool_use_id": "c", "content": "x"},
    "unknown": {"type": "hologram"},
    "no type": {},
    "odd type": {"type": ["text"]},
}


@pytest.mark.parametrize("block", BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_blocks_that_the_api_refuses_are_dropped(block: dict[str, Any]) -> None:
    asked, good, done = user("t1", text("hi")), reply("t1", text("hello")), end("t1")
    mixed = replace(good, blocks=[block, *good.blocks])
    assert repaired([asked, mixed, done]) == [asked, good, done]
    assert repaired([asked, reply("t1", block), done]) == [asked, done]
    assert repaired([replace(asked, blocks=[text("hi"), block]), done]) == [asked, done]


@pytest.mark.parametrize("given", [None, "ls", [], 5, ["a"]])
def test_an_input_that_is_no_object_becomes_an_empty_one(given: Any) -> None:
    block = {"type": "tool_use", "id": "c1", "name": "bash", "input": given}
    whole = repaired([user("t1"), reply("t1", block)])
    assert isinstance(whole[1], AssistantRecord)
    assert whole[1].blocks == [{**block, "input": {}}]


def test_lone_surrogates_are_replaced_at_any_depth() -> None:
    records: list[Record] = [
        user("t1", text("a\ud800")),
        reply("t1", text("b\udfff"), call("c1", deep=[{"\ud812": "\udc00x"}])),
        result("t1", "c1", "c\ud83d", raw_output={"k": ["\ud83d"]}),
        CompactionRecord(epoch=0, time=0.0, summary="\ud800"),
        end("t1"),
    ]
    whole = repaired(records)
    assert isinstance(whole[1], AssistantRecord)
    assert whole[1].blocks[1]["input"] == {"deep": [{"\ufffd": "\ufffdx"}]}
    for record in whole:
        encode(record)
    for some in (records, records[:3]):
        str(to_messages(some, MODEL)).encode()


def test_nothing_is_repaired_to_nothing() -> None:
    assert repaired([]) == []


@pytest.mark.parametrize("levels", [150, 260, 600])
def test_what_is_nested_deeper_than_a_request_may_be_is_cut(levels: int) -> None:
    deep: list[Any] = []
    for _ in range(levels):
        deep = [deep]
    whole = repaired([user("t1"), reply("t1", {**text("hi"), "citations": deep}), end("t1")])
    to_json(to_messages(whole, MODEL))
    assert repaired(whole) == whole
