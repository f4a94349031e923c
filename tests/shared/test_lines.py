"""A line of a history is read wherever its meaning is plain, and nothing in one hides another."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.lines import decode, encode, finished_turns, parse
from tests.shared.histories import end, result, user


def _deep_line(levels: int, brackets: str = "") -> bytes:
    """A whole line of a result whose `raw_output` is nested so many levels deep."""
    deep = '{"a":' + "[" * levels + "1" + "]" * levels + "}"
    return (
        '{"kind":"tool_result","epoch":0,"time":1.0,"turn_id":"t","call_id":"c","tool":"x",'
        f'"text":"{brackets}","raw_output":{deep}}}\n'
    ).encode()


@pytest.mark.parametrize("brackets", ["", "[" * 500])
def test_depth_is_judged_by_nesting_not_by_brackets_in_text(brackets: str) -> None:
    records, problems, _ = parse(_deep_line(190, brackets) + _deep_line(900, brackets) + encode(end("t")))
    assert [record.kind for record in records] == ["tool_result", "turn_end"]
    assert [problem.line for problem in problems] == [2]


def test_a_blank_line_and_a_glued_one_do_not_hide_a_deep_one() -> None:
    cleared = b'{"kind":"clear","epoch":0,"time":1.0}'
    records, problems, _ = parse(cleared + cleared.replace(b"1.0", b"2.0") + b"\n" + _deep_line(300) + b"\n")
    assert [record.kind for record in records] == ["clear", "clear"]
    assert [problem.line for problem in problems] == [2]


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"zz","kind":"clear","epoch":0,"time":1.0}',
        b'{"kind":"clear","epoch":"1","time":"1.0"}',
        b'{"kind":"clear","epoch":1.0,"time":1}',
        b'{"kind":"tool_result","epoch":0,"time":1.0,"turn_id":"t","call_id":"c","tool":"x","text":"",'
        b'"raw_output":{"a":NaN}}',
    ],
)
def test_a_line_that_was_edited_by_hand_is_read_where_its_meaning_is_plain(line: bytes) -> None:
    records, problems, _ = parse(line + b"\n" + encode(end("t")))
    assert len(records) == 2
    assert problems == []


def test_what_json_knows_nothing_of_is_written_as_text() -> None:
    read_back = decode(encode(result("t", "c", raw_output={"path": Path("/x")})))
    assert read_back.kind == "tool_result"
    assert read_back.raw_output == {"path": "/x"}


def test_a_grant_with_a_member_that_is_no_text_does_not_survive_into_a_fork() -> None:
    grant = b'{"kind":"grant","epoch":0,"time":1.0,"tool":"bash","allow":true,"zz":"\xff"}\n'
    assert b"grant" not in finished_turns(encode(user("t")) + grant + encode(end("t")))
