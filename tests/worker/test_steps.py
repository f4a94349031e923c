"""What a turn does next follows from its records alone, wherever its last worker died."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.shared.histories import call, end, reply, result, start, text, thinking, user
from worker.steps import (
    MAX_CUT_REPLIES,
    MAX_REQUESTS,
    REPEATS_ENDED,
    REPEATS_TOLD,
    AskModel,
    Done,
    RunCalls,
    next_step,
)

if TYPE_CHECKING:
    from shared.records import Record


def rounds(number: int, *, same: bool = False, stop_reason: str = "tool_use") -> list[Record]:
    """That many replies, each with one call that ran."""
    made: list[Record] = [user("t")]
    for n in range(number):
        one = call(f"c{n}", command="ls" if same else f"ls {n}")
        made += [reply("t", one, stop_reason=stop_reason), result("t", f"c{n}")]
    return made


def test_a_turn_begins_with_the_model() -> None:
    assert next_step([]) == next_step([user("t")]) == AskModel()


def test_a_reply_without_calls_ends_the_turn() -> None:
    assert next_step([user("t"), reply("t", text("done"))]) == Done("end_turn")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("refusal", "refusal"),
        ("cancelled", "cancelled"),
        ("a word of tomorrow", "end_turn"),
    ],
)
def test_each_stop_reason_is_told_for_what_it_says(said: str, told: str) -> None:
    assert next_step([user("t"), reply("t", text("x"), stop_reason=said)]) == Done(told)


def test_a_pause_goes_on_with_the_model() -> None:
    assert next_step([user("t"), reply("t", thinking("hm"), stop_reason="pause_turn")]) == AskModel()


def test_calls_without_a_result_are_run_and_the_others_are_not() -> None:
    one, two, three = call("c1", command="a"), call("c2", command="b"), call("c3", command="c")
    turn: list[Record] = [
        user("t"),
        reply("t", text("x"), one, two, three),
        start("t", "c1"),
        result("t", "c1"),
    ]
    step = next_step(turn)
    assert isinstance(step, RunCalls)
    assert step.calls == [two, three]
    assert not step.cut
    assert next_step([*turn, result("t", "c3")]) == RunCalls(
        [two], {}, cut=False, refused=False, told=False, over=False
    )


def test_results_of_a_sub_agent_end_no_call_of_another_name() -> None:
    turn: list[Record] = [user("t"), reply("t", call("c1", name="agent", prompt="x"))]
    step = next_step([*turn, result("t", "sub1", parent_call_id="c1")])
    assert isinstance(step, RunCalls)


def test_when_all_calls_have_results_it_is_the_models_turn() -> None:
    assert next_step(rounds(3)) == AskModel()


def test_a_call_whose_json_did_not_parse_is_run_with_what_came() -> None:
    step = next_step([user("t"), reply("t", call("c1"), malformed={"c1": '{"comm'})])
    assert isinstance(step, RunCalls)
    assert step.malformed == {"c1": '{"comm'}


def test_a_turn_has_at_most_so_many_requests_and_its_last_calls_still_get_results() -> None:
    assert next_step(rounds(MAX_REQUESTS - 1)) == AskModel()
    assert next_step(rounds(MAX_REQUESTS)) == Done("max_turn_requests")
    assert isinstance(next_step(rounds(MAX_REQUESTS)[:-1]), RunCalls)


@pytest.mark.parametrize("limit", ["max_tokens", "model_context_window_exceeded"])
def test_a_reply_cut_within_a_call_is_told_and_too_many_end_the_turn(limit: str) -> None:
    step = next_step([user("t"), reply("t", call("c1"), stop_reason=limit)])
    assert isinstance(step, RunCalls)
    assert step.cut
    assert next_step(rounds(MAX_CUT_REPLIES, stop_reason=limit)) == AskModel()
    assert next_step(rounds(MAX_CUT_REPLIES + 1, stop_reason=limit)) == Done("max_tokens")


def test_the_same_call_again_and_again_is_counted_and_ends_the_turn() -> None:
    told = next_step(rounds(REPEATS_TOLD, same=True)[:-1])
    assert isinstance(told, RunCalls)
    assert told.told
    assert not told.over
    assert next_step(rounds(REPEATS_ENDED - 1, same=True)) == AskModel()
    assert next_step(rounds(REPEATS_ENDED, same=True)) == Done("max_turn_requests")


def test_another_call_in_between_starts_the_count_anew() -> None:
    turn = [*rounds(REPEATS_ENDED - 1, same=True), reply("t", call("x", command="pwd")), result("t", "x")]
    again = [*turn, reply("t", call("y", command="ls")), result("t", "y")]
    assert next_step(again) == AskModel()


def test_the_same_call_in_another_order_of_its_input_is_the_same() -> None:
    turn: list[Record] = [user("t")]
    for n in range(REPEATS_ENDED):
        given: dict[str, Any] = {"a": 1, "b": 2} if n % 2 else {"b": 2, "a": 1}
        turn += [reply("t", call(f"c{n}", **given)), result("t", f"c{n}")]
    assert next_step(turn) == Done("max_turn_requests")


def test_records_of_other_kinds_change_nothing() -> None:
    assert next_step([user("t"), start("t", "c0"), reply("t", text("x")), end("t")]) == Done("end_turn")


def test_the_calls_of_a_refused_reply_are_not_to_be_run_and_the_turn_ends_so() -> None:
    turn: list[Record] = [user("t"), reply("t", text("no"), call("c1"), stop_reason="refusal")]
    step = next_step(turn)
    assert isinstance(step, RunCalls)
    assert step.refused
    assert next_step([*turn, result("t", "c1")]) == Done("refusal")


def test_pauses_are_bounded() -> None:
    paused: list[Record] = [user("t"), *(reply("t", text("x"), stop_reason="pause_turn") for _ in range(10))]
    assert next_step(paused[:-1]) == next_step(paused) == AskModel()
    assert next_step([*paused, reply("t", text("x"), stop_reason="pause_turn")]) == Done("max_turn_requests")


def polled(number: int, *commands: str) -> list[Record]:
    """The same commands again and again, that many times in all, each of which gives something else."""
    made: list[Record] = [user("t")]
    for n in range(number):
        shown = [{"type": "content", "content": {"type": "text", "text": f"{n}"}}]
        one = call(f"c{n}", command=commands[n % len(commands)])
        made += [reply("t", one), result("t", f"c{n}", f"{n}", content=shown)]
    return made


def test_what_waits_for_something_may_look_more_often_but_not_for_ever() -> None:
    told = next_step(polled(4 * REPEATS_TOLD, "kubectl get pods")[:-1])
    assert isinstance(told, RunCalls)
    assert told.told
    assert not told.over
    assert next_step(polled(4 * REPEATS_ENDED - 1, "kubectl get pods")) == AskModel()
    assert next_step(polled(4 * REPEATS_ENDED, "kubectl get pods")) == Done("max_turn_requests")


@pytest.mark.parametrize("length", [2, 3, 8])
def test_a_round_of_calls_again_and_again_is_counted_too(length: int) -> None:
    def going_round(number: int) -> list[Record]:
        made: list[Record] = [user("t")]
        for n in range(number):
            made += [reply("t", call(f"c{n}", command=f"step {n % length}")), result("t", f"c{n}")]
        return made

    assert next_step(going_round(length * REPEATS_ENDED - 1)) == AskModel()
    assert next_step(going_round(length * REPEATS_ENDED)) == Done("max_turn_requests")
    # With other results each time it is work.
    assert next_step(polled(length * REPEATS_ENDED, *(f"step {n}" for n in range(length)))) == AskModel()


def test_a_note_in_a_result_does_not_start_the_count_anew() -> None:
    turn = rounds(REPEATS_ENDED, same=True)
    noted = [
        replace(record, text=f"{record.text} [told]") if record.kind == "tool_result" and n == 10 else record
        for n, record in enumerate(turn)
    ]
    assert noted != turn
    assert next_step(noted) == Done("max_turn_requests")
