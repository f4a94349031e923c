"""How full the window is, and what is cut: the same from the records alone as while they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.records import ClearRecord, CompactionRecord
from tests.shared.histories import call, end, reply, result, text, user
from worker.context import BRIM, FULL, LEAST_OUTPUT, ROOMY, SHRUNK, Context, cut_results, shortened

if TYPE_CHECKING:
    from shared.records import Record

WINDOW = 10_000


def rounds(*octets: int, counted: bool = True, words: str = "x") -> list[Record]:
    """A turn with a result of so many octets in each round; the API counts four octets a token."""
    records: list[Record] = [user("t", text("go"))]
    sent = 0
    for n, size in enumerate(octets):
        usage = {"input": 100 + sent // 4, "output": 10} if counted else {}
        records += [reply("t", call(f"c{n}"), usage=usage), result("t", f"c{n}", words * size)]
        sent += size
    return records


def folded(records: list[Record], window: int = WINDOW) -> Context:
    context = Context(window)
    for record in records:
        context.add(record)
    return context


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from([2_000, WINDOW, 50_000])), max_size=30),
    st.booleans(),
)
def test_a_worker_that_has_just_loaded_the_history_cuts_the_same(
    asked: list[tuple[int, int]], counted: bool
) -> None:
    """Whatever windows the requests were cut for, and however often it was looked at in between."""
    live = Context(WINDOW)
    windows = [window for _, window in asked]
    records = rounds(*[octets for octets, _ in asked], counted=counted)
    replies = [n for n, record in enumerate(records) if record.kind == "assistant"]
    for n, window in zip(replies, windows, strict=True):
        records[n] = replace(records[n], window=window)
    for n, record in enumerate(records):
        sent = live.fitted(record.window) if record.kind == "assistant" else None
        live.add(record)
        if sent is not None:
            assert live.limits == sent.limits, "it knows what was sent"
        live.fitted(2_000)
        loaded = folded(records[: n + 1])
        assert (loaded.limits, loaded.tokens) == (live.limits, live.tokens)


@given(st.lists(st.integers(0, 20_000), max_size=40), st.booleans())
def test_what_is_cut_stays_cut_and_what_is_new_stays_whole_below_the_brim(
    octets: list[int], counted: bool
) -> None:
    context, before = Context(WINDOW), dict[str, int]()
    for record in rounds(*octets, counted=counted):
        context.add(record)
        if record.kind != "tool_result":
            continue
        at_brim = context.is_at_brim
        sent = context.fitted(WINDOW)
        assert all(sent.limits[one] <= limit for one, limit in before.items())
        if not at_brim and len(record.text) <= WINDOW:
            assert record.call_id not in sent.limits
        before = dict(sent.limits)


def test_nothing_is_cut_before_the_window_is_full() -> None:
    context = folded(rounds(*[2_000] * 10)).fitted(WINDOW)
    assert not context.is_full
    assert context.limits == {}


def test_old_results_are_shrunk_first_and_a_good_part_at_once() -> None:
    context = folded(rounds(*[2_000] * 15))
    assert context.limits == {}
    for record in rounds(*[2_000] * 16)[-2:]:
        context.add(record)
    assert context.tokens > FULL * WINDOW
    context = context.fitted(WINDOW)
    assert context.tokens <= ROOMY * WINDOW
    assert list(context.limits) == [f"c{n}" for n in range(len(context.limits))]
    assert set(context.limits.values()) == {SHRUNK}
    assert not any(f"c{n}" in context.limits for n in range(13, 16))


def test_no_single_result_fills_the_window() -> None:
    for words, characters in (("x", WINDOW), ("語", WINDOW // 3)):
        context = folded(rounds(400_000, words=words))
        assert context.limits == {"c0": characters}
        assert not context.fitted(WINDOW).is_at_brim


def test_a_service_that_counts_nothing_is_counted_for() -> None:
    context = folded(rounds(*[3_000] * 8, counted=False))
    assert context.tokens == pytest.approx(8_000, rel=0.1)
    context = folded(rounds(*[3_000] * 12, counted=False))
    assert context.limits
    assert not context.is_at_brim


def test_a_summary_begins_anew_and_keeps_the_prompt() -> None:
    prompt = user("t", text("p" * 9_000))
    turn: list[Record] = [prompt, *rounds(*[3_000] * 5)[1:]]
    for kept, tokens in (("t", 3_000), ("", 0)):
        compaction = CompactionRecord(epoch=1, time=1.0, summary="s" * 3_000, turn_id=kept)
        context = folded([*turn, compaction, replace(compaction, summary="s" * 300)])
        assert context.tokens == pytest.approx(tokens + 100, abs=20)
        assert context.limits == {}
    assert folded([*turn, ClearRecord(epoch=1, time=1.0)]).tokens == 0


def test_new_results_that_do_not_fit_together_are_cut_alike_and_small_ones_stay() -> None:
    sizes = [9_000, 9_000, 600, 9_000]
    turn: list[Record] = [user("t", text("go")), reply("t", *(call(f"c{n}") for n in range(4)))]
    turn += [result("t", f"c{n}", "x" * size) for n, size in enumerate(sizes)]
    context = folded(turn, 8_000).fitted(8_000)
    assert not context.is_at_brim
    assert set(context.limits) == {"c0", "c1", "c3"}
    (limit,) = set(context.limits.values())
    assert limit > 5_000, "no more is cut than must be"


def test_a_prompt_that_was_refused_does_not_count() -> None:
    refused = replace(end("u"), error={"code": -32602, "message": "Invalid params"})
    context = folded([*rounds(40), end("t"), user("u", text("p" * 100_000)), refused])
    assert not context.is_full
    assert not context.gains("u")


def test_a_reply_has_room_beside_what_is_there() -> None:
    assert Context(200_000).output_limit(32_000) == 32_000
    assert Context(8_000).output_limit(32_000) == 2_048
    full = Context(200_000)
    full.base = 1_000
    full.tokens = int(BRIM * full.window)
    assert full.output_limit(32_000) == 16_384
    full.tokens = 2 * full.window
    assert full.output_limit(32_000) == LEAST_OUTPUT


def test_results_are_cut_in_copies() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "x" * 100},
                {"type": "tool_result", "tool_use_id": "b", "content": "y" * 100},
            ],
        },
    ]
    cut = cut_results(messages, {"a": 10})
    assert cut[0] is messages[0]
    assert cut[1]["content"][0]["content"] == shortened("x" * 100, 10)
    assert cut[1]["content"][1] is messages[1]["content"][1]
    assert messages[1]["content"][0]["content"] == "x" * 100
    assert cut_results(messages, {}) is messages
