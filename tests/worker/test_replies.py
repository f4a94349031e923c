"""Recorded streams of every shape, and the message that comes out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from anthropic import Anthropic, Stream

from worker.models.base import Text, Thinking, Usage
from worker.models.replies import ReplyBuilder

if TYPE_CHECKING:
    from worker.models.base import Reply

START = {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def stopped(reason: str | None) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}


def block(
    index: int, start: dict[str, Any], *deltas: dict[str, Any], end: bool = True
) -> list[dict[str, Any]]:
    events = [{"type": "content_block_start", "index": index, "content_block": start}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}] if end else events


def text(part: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": part}


def call(index: int, *parts: str, end: bool = True, **start: Any) -> list[dict[str, Any]]:
    fields = {"type": "tool_use", "id": f"t{index}", "name": "bash", "input": {}, **start}
    return block(
        index, fields, *({"type": "input_json_delta", "partial_json": part} for part in parts), end=end
    )


def play(events: list[dict[str, Any]]) -> tuple[ReplyBuilder, list[Any]]:
    """Feed events through the SDK's own decoding, as they come over the wire."""
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    sent = httpx2.MockTransport(lambda _: httpx2.Response(200, content=body))
    builder = ReplyBuilder()
    with Anthropic(api_key="k", base_url="http://h", http_client=httpx2.Client(transport=sent)) as client:
        stream = client.post("/v1/messages", body={}, cast_to=object, stream=True, stream_cls=Stream[object])
        return builder, [item for event in stream if (item := builder.feed(event)) is not None]


def reply(*events: dict[str, Any]) -> Reply:
    builder, _ = play([START, *events, STOP])
    assert builder.complete
    return builder.reply()


def test_text_comes_out_in_deltas_and_as_a_block() -> None:
    hello = block(0, {"type": "text", "text": ""}, text("Hel"), text("lo"))
    builder, items = play([START, *hello, stopped("end_turn"), STOP])
    assert items == [Text("Hel"), Text("lo")]
    assert builder.reply().blocks == [{"type": "text", "text": "Hello"}]
    assert builder.reply().stop_reason == "end_turn"


def test_several_blocks_keep_their_order() -> None:
    made = reply(
        *block(0, {"type": "text", "text": ""}, text("one")),
        *call(1, '{"command": ', '"ls"}'),
        *block(2, {"type": "text", "text": ""}, text("two")),
        *call(3, "{}"),
        stopped("tool_use"),
    )
    assert [part.get("text") or part["input"] for part in made.blocks] == [
        "one",
        {"command": "ls"},
        "two",
        {},
    ]
    assert made.malformed == {}


def test_thinking_keeps_its_signature_and_its_bytes() -> None:
    thought = "a  b\n\tc é 😀 "
    deltas = [{"type": "thinking_delta", "thinking": part} for part in (thought[:5], thought[5:])]
    deltas.append({"type": "signature_delta", "signature": "EqQB+/="})
    builder, items = play(
        [START, *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *deltas), STOP]
    )
    assert items == [Thinking(thought[:5]), Thinking(thought[5:])]
    assert builder.reply().blocks == [{"type": "thinking", "thinking": thought, "signature": "EqQB+/="}]


def test_thinking_whose_text_is_withheld_keeps_its_signature() -> None:
    signature = {"type": "signature_delta", "signature": "s"}
    made = reply(
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, signature), stopped("end_turn")
    )
    assert made.blocks == [{"type": "thinking", "thinking": "", "signature": "s"}]


@pytest.mark.parametrize(
    "kept",
    [
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3"},
        {"type": "from_the_future", "payload": {"a": [1, None, {"b": "c"}]}, "note": None},
    ],
)
def test_blocks_that_are_not_read_here_are_kept_verbatim(kept: dict[str, Any]) -> None:
    assert reply(*block(0, kept), stopped("end_turn")).blocks == [kept]


def test_an_unknown_block_that_was_cut_is_left_out() -> None:
    assert reply(*block(0, {"type": "from_the_future", "x": 1}, end=False)).blocks == []


@pytest.mark.parametrize(
    "cut", ['{"command": "rm', '{"a": NaN}', "[1]", '"x"', "{} {}", '{"a": "\\ud800"}', "\ud800", "nope"]
)
def test_input_that_is_no_json_object_is_malformed(cut: str) -> None:
    made = reply(*call(0, cut[:3], cut[3:]), stopped("tool_use"))
    assert made.blocks[0]["input"] == {}
    assert made.malformed == {0: cut.replace("\ud800", "\ufffd")}


def test_a_call_without_deltas_has_the_input_it_started_with() -> None:
    assert reply(*call(0, input={"path": "a"}), stopped("tool_use")).blocks[0]["input"] == {"path": "a"}
    assert reply(*call(0, "", "  "), stopped("tool_use")).blocks[0]["input"] == {}
    assert reply(*call(0, "", input={"path": "a"}), stopped("tool_use")).blocks[0]["input"] == {"path": "a"}


def test_a_call_cut_by_max_tokens_is_malformed_and_the_reason_is_kept() -> None:
    made = reply(*call(0, '{"path": "/etc', end=False), stopped("max_tokens"))
    assert made.stop_reason == "max_tokens"
    assert list(made.malformed) == [0]


def test_a_character_split_into_two_halves_is_one_again() -> None:
    halves = block(0, {"type": "text", "text": ""}, text("a\ud83d"), text("\ude00b"))
    builder, items = play([START, *halves, STOP])
    assert items == [Text("a"), Text("😀b")]
    assert builder.reply().blocks[0]["text"] == "a😀b"


def test_lone_surrogates_never_come_out() -> None:
    made = reply(*block(0, {"type": "text", "text": ""}, text("x\udc00y"), text("z\ud83d")))
    assert made.blocks[0]["text"] == "x\ufffdyz\ufffd"


def test_a_token_count_that_is_no_number_is_passed_over() -> None:
    builder = ReplyBuilder()
    builder.feed(START)
    builder.feed({**stopped("end_turn"), "usage": {"output_tokens": True, "input_tokens": "9"}})
    assert builder.reply().usage == Usage(input=10, output=1)


def test_usage_counts_cached_tokens_as_input() -> None:
    start = {
        "type": "message_start",
        "message": {
            "usage": {
                "input_tokens": 5,
                "output_tokens": 1,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 20,
            }
        },
    }
    builder, _ = play([start, stopped("end_turn"), STOP])
    assert builder.reply().usage == Usage(input=125, output=7, cache_read=100, cache_write=20)


@pytest.mark.parametrize("reason", ["refusal", "pause_turn", "stop_sequence", "a_new_reason"])
def test_the_stop_reason_is_the_apis_own_word(reason: str) -> None:
    assert reply(stopped(reason)).stop_reason == reason


def test_a_server_that_gives_no_reason_is_understood() -> None:
    assert reply(*call(0, "{}"), stopped(None)).stop_reason == "tool_use"
    assert reply().stop_reason == "end_turn"


def test_no_content_is_an_empty_reply() -> None:
    assert reply(stopped("end_turn")).blocks == []


def test_without_message_stop_it_is_not_complete() -> None:
    builder, _ = play([START, *block(0, {"type": "text", "text": ""}, text("x")), stopped("end_turn")])
    assert not builder.complete


def test_unknown_events_and_deltas_are_passed_over() -> None:
    made = reply(
        {"type": "from_the_future", "x": 1},
        *block(0, {"type": "text", "text": ""}, {"type": "new_delta", "z": 1}, text("ok")),
    )
    assert made.blocks == [{"type": "text", "text": "ok"}]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_delta", "index": 9, "delta": text("x")},
        {"type": "content_block_delta"},
        {"type": "content_block_start", "index": 0},
        {"type": "message_start"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": {}}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": None},
        },
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "name": "bash"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": [], "name": "x"},
        },
        {"type": "content_block_start", "index": 1, "content_block": {"type": ["tool_use"]}},
        {"type": "message_delta", "delta": {"stop_reason": 5}},
        [],
        None,
    ],
)
def test_events_that_make_no_sense_are_an_error(event: Any) -> None:
    builder, _ = play([START, *block(0, {"type": "text", "text": ""}, end=False)])
    with pytest.raises(ValueError, match="makes no sense"):
        builder.feed(event)


def test_blocks_under_one_index_are_all_kept() -> None:
    made = reply(*call(0, '{"a": 1}', id="x"), *call(0, '{"b": 2}', id="y"), stopped("tool_use"))
    assert [(one["id"], one["input"]) for one in made.blocks] == [("x", {"a": 1}), ("y", {"b": 2})]


def test_of_calls_with_one_id_the_malformed_one_is_told_by_its_place() -> None:
    made = reply(*call(0, '{"a"', id="x"), *call(1, '{"b": 2}', id="x"), stopped("tool_use"))
    assert [one["input"] for one in made.blocks] == [{}, {"b": 2}]
    assert made.malformed == {0: '{"a"'}


@pytest.mark.parametrize("index", [None, "0", -1, 1.5, True, [0], 2**60])
def test_an_index_that_is_none_is_a_garbled_reply(index: Any) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        play([START, {"type": "content_block_start", "index": index, "content_block": {"type": "text"}}])


@pytest.mark.parametrize("count", [-50, 10**30, "7", True, 1.5, None])
def test_a_count_that_can_be_none_is_passed_over(count: Any) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": count, "output_tokens": 1}}}
    builder, _ = play([start, stopped("end_turn"), STOP])
    assert builder.reply().usage == Usage(0, 7)
