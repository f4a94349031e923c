"""What a load shows is what a client would have seen: in order, with ends, the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.records import ClearRecord, CommandRecord, CompactionRecord
from tests.shared.histories import call, end, grant, reply, result, start, text, thinking, user, whole_turn
from worker import events as ev
from worker.replay import call_update, shown_tail, updates
from worker.tools import load_tools

TOOLS = load_tools()
CWD = Path("/work/dir")


def shown(*records: Any) -> list[dict[str, Any]]:
    found = list(updates(records, TOOLS, CWD))
    assert found == list(updates(records, TOOLS, CWD)), "two replays differ"
    assert not any(value is None for update in found for value in update.values())
    return found


def kinds(*records: Any) -> list[str]:
    return [update["sessionUpdate"] for update in shown(*records)]


def test_text_thoughts_and_calls_come_in_their_order() -> None:
    one = reply("t", thinking("hm"), text("let me see"), call("c1", command="ls"), message_id="m1")
    found = shown(user("t", text("go"), text("on")), one, start("t", "c1"), result("t", "c1"), end("t"))
    assert [update["sessionUpdate"] for update in found] == [
        "user_message_chunk",
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call",
    ]
    assert [update["content"]["text"] for update in found[:4]] == ["go", "on", "hm", "let me see"]
    assert [update["messageId"] for update in found[:4]] == ["t", "t", "m1", "m1"]


@pytest.mark.parametrize(("is_error", "status"), [(False, "completed"), (True, "failed")])
def test_a_call_has_its_end_state_and_what_it_gave(is_error: bool, status: str) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "a\nb"}}]
    given: dict[str, Any] = {"is_error": is_error, "content": content, "raw_output": {"exit_code": 1}}
    (update,) = shown(reply("t", call("c1", command="ls -la")), result("t", "c1", **given))
    assert update["status"] == status
    assert update["content"] == content
    assert update["rawOutput"] == {"exit_code": 1}
    assert update["rawInput"] == {"command": "ls -la"}
    assert update["kind"] == "execute"
    assert "ls -la" in update["title"]


def test_a_call_names_the_files_that_an_editor_may_follow() -> None:
    (update,) = shown(reply("t", call("c1", name="read_file", path="a.py")), result("t", "c1"))
    assert update["kind"] == "read"
    assert update["locations"][0]["path"] == str(CWD / "a.py")


@pytest.mark.parametrize(
    ("name", "given", "kind"),
    [("bash", {"comand": 1}, "execute"), ("read_file", {}, "read"), ("gone_tool", {"a": 1}, "other")],
)
def test_a_call_that_no_tool_understands_is_shown_by_its_name(name: str, given: Any, kind: str) -> None:
    (update,) = shown(reply("t", call("c1", name=name, **given)), result("t", "c1", is_error=True))
    assert (update["title"], update["kind"], update["rawInput"]) == (name, kind, given)


def test_a_call_that_runs_still_is_pending() -> None:
    (update,) = shown(reply("t", call("c1", command="ls")))
    assert update["status"] == "pending"
    assert "rawOutput" not in update


def test_a_compacted_part_is_shown_and_a_cleared_one_is_not() -> None:
    compaction = CompactionRecord(epoch=0, time=1.0, summary="short")
    clear = ClearRecord(epoch=0, time=1.0)
    assert kinds(*whole_turn("a"), compaction, *whole_turn("b")) == kinds(*whole_turn("a"), *whole_turn("b"))
    assert kinds(*whole_turn("a"), clear, *whole_turn("b")) == kinds(*whole_turn("b"))
    assert kinds(*whole_turn("a"), clear) == []
    assert kinds(*whole_turn("a"), clear, *whole_turn("b"), clear, user("c")) == ["user_message_chunk"]


def test_a_command_is_shown_with_what_it_said() -> None:
    command = CommandRecord(epoch=0, time=1.0, turn_id="t", text="/status", output="all is well")
    said = [(update["sessionUpdate"], update["content"]["text"]) for update in shown(command)]
    assert said == [("user_message_chunk", "/status"), ("agent_message_chunk", "all is well")]


def test_what_nobody_was_shown_is_not_shown() -> None:
    hidden = {"type": "redacted_thinking", "data": "x"}
    assert kinds(reply("t", hidden, {"type": "text", "text": ""}, thinking("")), grant(), end("t")) == []


def test_what_a_user_sent_that_is_no_text_leaves_its_kind() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "AA=="}}
    assert shown(user("t", image))[0]["content"]["text"] == "[image]"


def test_a_single_call_is_one_update() -> None:
    update = call_update(call("c1", command="ls"), result("t", "c1"), TOOLS, CWD)
    assert (update["sessionUpdate"], update["toolCallId"], update["status"]) == (
        "tool_call",
        "c1",
        "completed",
    )


# What a client lacks of a reply that is on disk


def test_a_reply_that_nobody_was_sent_is_sent_whole() -> None:
    one = reply("t", thinking("hm"), text("a"), call("c1"), text("b"), message_id="m")
    assert list(shown_tail(one, {})) == [ev.ThinkingDelta("hm", "m"), ev.TextDelta("ab", "m")]


def test_only_what_is_lacking_is_sent_under_the_same_message() -> None:
    one = reply("t", text("Hällo"), text(" world"), message_id="m")
    assert list(shown_tail(one, {"m:agent_message_chunk": 7})) == [ev.TextDelta("orld", "m")]


@pytest.mark.parametrize("sent", [5, 6, 1000])
def test_what_was_sent_whole_is_not_sent_again(sent: int) -> None:
    assert list(shown_tail(reply("t", text("hello"), message_id="m"), {"m:agent_message_chunk": sent})) == []


def test_characters_of_another_message_do_not_count() -> None:
    one = reply("t", text("hello"), message_id="m")
    assert list(shown_tail(one, {"other:agent_message_chunk": 5})) == [ev.TextDelta("hello", "m")]
