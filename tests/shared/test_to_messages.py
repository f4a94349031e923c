"""What the model is sent of a history: valid, whole, and the same bytes each time."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from shared.records import ClearRecord, CommandRecord, CompactionRecord
from shared.repair import TURN_CANCELLED, repair, to_messages
from tests.shared.histories import (
    MODEL,
    broken_rule,
    call,
    end,
    reply,
    result,
    text,
    thinking,
    user,
    whole_turn,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shared.records import Record


def compaction(summary: str = "we spoke of c1") -> CompactionRecord:
    return CompactionRecord(epoch=0, time=1.0, summary=summary)


def clear() -> ClearRecord:
    return ClearRecord(epoch=0, time=2.0)


def word(block: dict[str, Any]) -> str:
    return str(block.get("tool_use_id") or block.get("id") or block.get("text") or block["type"])


def shape(records: Sequence[Record]) -> list[str]:
    """Each message as its role and the ids or texts of its blocks."""
    messages = to_messages(records, MODEL)
    assert broken_rule(messages) is None
    assert json.dumps(to_messages(records, MODEL)) == json.dumps(messages)
    return [f"{one['role'][0]}: {', '.join(map(word, one['content']))}" for one in messages]


def test_results_are_in_call_order_before_what_the_user_says() -> None:
    records: list[Record] = [
        user("t1", text("go")),
        reply("t1", text("ok"), call("a"), call("b"), call("c")),
        result("t1", "c"),
        result("t1", "s1", parent_call_id="b"),
        result("t1", "a"),
        result("t1", "b"),
        end("t1", "end_turn"),
        user("t2", text("and now")),
    ]
    assert shape(records) == ["u: go", "a: ok, a, b, c", "u: a, b, c, and now"]


def test_messages_of_one_role_in_a_row_are_one() -> None:
    records: list[Record] = [
        user("t1", text("one")),
        end("t1", "end_turn"),
        user("t2", text("two"), text("three")),
        reply("t2", text("four")),
        reply("t2", text("five"), call("c1")),
        result("t2", "c1"),
    ]
    assert shape(records) == ["u: one, two, three", "a: four, five, c1", "u: c1"]


def test_the_model_is_told_how_a_turn_ended_that_was_not_done() -> None:
    records: list[Record] = [
        user("t1", text("one")),
        end("t1", "cancelled"),
        user("t2", text("two")),
        reply("t2", text("half")),
        end("t2", "cancelled"),
        user("t3", text("three")),
    ]
    note = TURN_CANCELLED
    assert shape(records) == [f"u: one, {note}, two", "a: half", f"u: {note}, three"]


def test_a_result_says_what_it_is() -> None:
    records: list[Record] = [
        user("t1"),
        reply("t1", call("a"), call("b"), call("c")),
        result("t1", "a", "text"),
        result("t1", "b", " \n"),
        result("t1", "c", "", is_error=True),
    ]
    assert to_messages(records, MODEL)[-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "text"},
        {"type": "tool_result", "tool_use_id": "b", "content": "(no output)"},
        {"type": "tool_result", "tool_use_id": "c", "content": "(no output)", "is_error": True},
    ]


def test_a_clear_leaves_nothing_of_what_was_before() -> None:
    records: list[Record] = [*whole_turn("t1", "c1"), compaction(), *whole_turn("t2"), clear()]
    assert shape(records) == []
    assert shape([*records, user("t3", text("hi"))]) == ["u: hi"]


def test_a_clear_between_call_and_result_leaves_no_orphan() -> None:
    records: list[Record] = [
        user("t1"),
        reply("t1", call("c1")),
        clear(),
        result("t1", "c1"),
        user("t2", text("hi")),
    ]
    assert shape(records) == ["u: hi"]
    assert len(shape([*records[:3], compaction(), *records[3:]])) == 1


def test_a_compaction_puts_its_summary_before_what_came_after_it() -> None:
    records: list[Record] = [
        *whole_turn("t1", "c1"),
        compaction("first"),
        *whole_turn("t2"),
        compaction("second"),
    ]
    messages = to_messages([*records, *whole_turn("t3", "c3")], MODEL)
    assert broken_rule(messages) is None
    assert len(messages) == 4
    framed, asked = (block["text"] for block in messages[0]["content"])
    assert "<summary>\nsecond\n</summary>" in framed
    assert "first" not in framed
    assert asked == "do t3"


def test_a_compaction_does_not_split_a_call_from_its_result() -> None:
    records: list[Record] = [
        *whole_turn("t1", "c1"),
        user("t2"),
        reply("t2", call("c2"), call("c3")),
        result("t2", "c2"),
        compaction(),
        result("t2", "c3"),
        reply("t2", text("so")),
    ]
    assert [line[:6] for line in shape(records)] == ["u: <su", "a: c2,", "u: c2,", "a: so"]
    assert len(shape([*records, *whole_turn("t3", "c4")])) == 8


def test_a_compaction_alone_is_a_conversation() -> None:
    assert len(shape([*whole_turn("t1"), compaction()])) == 1


def test_thinking_goes_back_byte_for_byte_to_the_model_that_thought_it() -> None:
    thought = thinking("  hm ünd\n", "sig==")
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    records: list[Record] = [user("t1"), reply("t1", thought, hidden, text("ok")), end("t1"), user("t2")]
    assert to_messages(records, MODEL)[1]["content"] == [thought, hidden, text("ok")]
    assert to_messages(records, "another")[1]["content"] == [text("ok")]


def test_a_reply_that_ends_in_thinking_or_is_nothing_else_is_cut() -> None:
    records: list[Record] = [
        user("t1", text("a")),
        reply("t1", thinking("x")),
        user("t1", text("b")),
        reply("t1", text("c"), thinking("y")),
        user("t1", text("d")),
    ]
    assert shape(records) == ["u: a, b", "a: c", "u: d"]


def test_a_call_that_has_no_result_yet_is_not_sent() -> None:
    records: list[Record] = [user("t1", text("a")), reply("t1", text("b"), thinking("x"), call("c1"))]
    assert shape(records) == ["u: a", "a: b"]
    assert shape([*records, reply("t1", call("c2"))]) == ["u: a", "a: b"]


def test_a_conversation_without_its_beginning_begins_with_the_user() -> None:
    assert [line[0] for line in shape([reply("t1", text("b")), user("t2")])] == ["u", "a", "u"]


def test_an_empty_prompt_is_still_a_message() -> None:
    assert shape([user("t1", text("  "))]) == ["u: (an empty message)"]


def test_numbers_that_json_lacks_do_not_reach_the_model() -> None:
    records: list[Record] = [
        user("t1"),
        reply("t1", call("c", n=float("nan"), m=[float("inf")])),
        result("t1", "c"),
    ]
    assert to_messages(records, MODEL)[1]["content"][0]["input"] == {"n": None, "m": [None]}


def test_records_are_not_changed_by_building_messages() -> None:
    records: list[Record] = [
        user("t1", text("a")),
        user("t2", text("b")),
        reply("t2", text("c")),
        reply("t2", text("d")),
    ]
    copies = [deepcopy(record) for record in records]
    to_messages(records, MODEL)
    assert records == copies


def test_a_summary_in_mid_turn_is_followed_by_the_prompt_word_for_word() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
    summary = CompactionRecord(epoch=0, time=1.0, summary="so far", turn_id="t2")
    turn: list[Record] = [
        user("t2", text("typed"), image),
        reply("t2", call("c2")),
        result("t2", "c2"),
        summary,
    ]
    records = [*whole_turn("t1", "c1"), *turn]
    rounds: list[list[Record]] = [
        [],
        [reply("t2", text("on")), end("t2")],
        [reply("t2", call("c3")), result("t2", "c3")],
    ]
    for more in rounds:
        messages = to_messages([*records, *more], MODEL)
        assert broken_rule(messages) is None
        first = messages[0]["content"]
        assert "so far" in first[0]["text"]
        assert first[2:] == [text("typed"), image]
    # Not where it was refused, and not from before a clear.
    refused = replace(end("t2"), error={"code": -32602, "message": "Invalid params"})
    assert "typed" not in str(to_messages([*records, refused], MODEL))
    assert "typed" not in str(to_messages([*turn[:1], clear(), summary], MODEL))
    assert str(to_messages([*turn[:3], summary, summary], MODEL)).count("typed") == 1


def test_a_pause_is_followed_by_a_word_to_go_on() -> None:
    records: list[Record] = [user("t1"), reply("t1", text("let me"), stop_reason="pause_turn")]
    paused = to_messages(records, MODEL)
    assert broken_rule(paused) is None
    assert paused[-1]["role"] == "user"
    on = to_messages([*records, reply("t1", text("done")), end("t1"), user("t2")], MODEL)
    assert on[: len(paused)] == paused
    assert broken_rule(on) is None


def test_a_command_says_nothing_of_the_request_before_it() -> None:
    typed = CommandRecord(epoch=0, time=1.0, turn_id="t2", text="/compact", output="Cancelled.")
    for ended in (end("t2", "cancelled"), replace(end("t2"), error={"code": -32603, "message": "x"})):
        records: list[Record] = [*whole_turn("t1"), typed, ended, user("t3", text("hi"))]
        assert to_messages(records, MODEL)[-1]["content"] == [text("hi")]


@pytest.mark.parametrize(
    "block",
    [
        text("x"),
        call("c1", x=1),
        thinking("hm"),
        {"type": "redacted_thinking", "data": "xyz"},
    ],
)
def test_members_that_the_api_does_not_know_are_left_out(block: dict[str, Any]) -> None:
    more = {**block, "foo": 1, "index": 0}
    records: list[Record] = [user("t1"), reply("t1", more, text("y")), result("t1", "c1"), end("t1")]
    whole = repair(records, epoch=1, now=1.0)
    for made in (records, whole):
        assert to_messages([*made, user("t2")], MODEL)[1]["content"][0] == block
