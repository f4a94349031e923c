"""A session's turns, event by event. `Shell` holds every effect to the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.frames import Cancel, Configure, Open, Prompt
from supervisor import effects as fx
from supervisor.session import CANCEL_BEFORE_START, MAX_WAITING, TURN_DROPPED
from tests.supervisor.turns import ask, opened, running

# Prompts

if TYPE_CHECKING:
    from tests.supervisor.shell import Shell


def test_a_prompt_starts_a_worker_and_reaches_it_after_open(shell: Shell) -> None:
    asked = shell.prompt()
    epoch = shell.ready()
    assert [type(frame) for frame in epoch.got] == [Open, Prompt]
    assert opened(shell).resuming == asked.turn_id
    shell.end(asked.turn_id)
    assert asked.answer == "end_turn"


def test_a_prompt_to_a_ready_worker_starts_none(shell: Shell) -> None:
    shell.end(running(shell))
    first = shell.epoch
    second = shell.prompt()
    assert shell.epoch is first
    assert isinstance(first.got[-1] if first else None, Prompt)
    shell.end(second.turn_id)
    assert second.answer == "end_turn"


def test_a_second_prompt_waits_and_runs_after_a_normal_end(shell: Shell) -> None:
    first = running(shell)
    second = shell.prompt("and then")
    assert (second.answer, second.ran) == (None, False)
    shell.end(first)
    assert (second.answer, second.ran) == (None, True)
    shell.end(second.turn_id)
    assert second.answer == "end_turn"


@pytest.mark.parametrize("how", ["cancelled", "max_tokens", "max_turn_requests", "refusal", "error"])
def test_a_waiting_prompt_does_not_run_after_any_other_end(shell: Shell, how: str) -> None:
    first = running(shell)
    waiting = [shell.prompt(), shell.prompt()]
    shell.fail(first) if how == "error" else shell.end(first, how)
    assert [asked.answer for asked in waiting] == ["cancelled", "cancelled"]
    assert not any(asked.ran for asked in waiting)
    told = [update["content"]["text"] for update in shell.said]
    assert len(told) == 2
    assert all(TURN_DROPPED in text for text in told)


def test_eight_prompts_wait_and_a_ninth_is_told_that_the_session_is_busy(shell: Shell) -> None:
    first = running(shell)
    waiting = [shell.prompt() for _ in range(MAX_WAITING)]
    effects = shell.machine.prompt(fx.Ticket(1, "ninth"), [], {})
    assert isinstance(effects[0], fx.Fail)
    assert effects[0].error.code == -32603
    assert effects[0].error.data["reason"] == "busy"
    assert "busy" in effects[0].error.data["details"]
    for asked in waiting:
        shell.end(first)
        first = asked.turn_id
    shell.end(first)
    assert all(asked.answer == "end_turn" for asked in waiting)


# Cancel


def test_a_cancel_ends_the_running_turn_and_those_that_wait(shell: Shell) -> None:
    first = running(shell)
    waiting = shell.prompt()
    shell.cancel()
    assert shell.epoch is not None
    assert shell.epoch.controls == [Cancel(turn_id=first)]
    assert waiting.answer == "cancelled"
    shell.end(first, "cancelled")
    assert shell.prompts[0].answer == "cancelled"
    assert shell.said == []


def test_a_second_cancel_of_the_same_turn_sends_nothing_more(shell: Shell) -> None:
    running(shell)
    shell.cancel()
    shell.cancel()
    assert shell.epoch is not None
    assert len(shell.epoch.controls) == len(shell.timers) == 1


def test_a_cancel_without_a_turn_does_nothing(shell: Shell) -> None:
    assert shell.machine.cancel() == []


def test_a_cancel_before_the_worker_is_ready_reaches_it_with_the_prompt(shell: Shell) -> None:
    asked = shell.prompt()
    shell.cancel()
    assert shell.timers[0].delay == CANCEL_BEFORE_START
    epoch = shell.ready()
    assert epoch.controls == [Cancel(turn_id=asked.turn_id)]
    assert isinstance(epoch.got[-1], Prompt)


def test_a_cancel_that_is_not_answered_is_answered_by_the_front_and_the_worker_replaced(shell: Shell) -> None:
    asked = shell.prompt()
    shell.up()
    shell.call("c1", "in_progress")
    shell.cancel()
    shell.overdue()
    assert asked.answer == "cancelled"
    assert shell.calls == {"c1": "failed"}
    assert shell.epoch is not None
    assert shell.epoch.killed
    shell.die()
    shell.ready()
    # What was typed comes to the next worker, to be recorded as a turn that was cancelled.
    assert shell.epoch.controls == [Cancel(turn_id=asked.turn_id)]
    assert [frame.turn_id for frame in shell.epoch.got if isinstance(frame, Prompt)] == [asked.turn_id]
    shell.end(asked.turn_id, "cancelled")
    shell.die()
    shell.ready()
    assert not [frame for frame in shell.epoch.got if isinstance(frame, Prompt)]


def test_nothing_that_a_killed_worker_still_says_follows_the_answer(shell: Shell) -> None:
    turn_id = running(shell)
    shell.cancel()
    shell.overdue()
    shell.frame("chunk", "m:agent_message_chunk", "3", b"late\n")
    shell.frame("update", "c9", "pending", b"late\n")
    shell.frame("request", "k", "session/request_permission", {})
    shell.frame("title", payload="late")
    shell.end(turn_id)
    assert (shell.lines, shell.asked_keys, shell.titles) == ([], [], [])


def test_a_cancel_that_was_answered_in_time_leaves_the_worker_alone(shell: Shell) -> None:
    turn_id = running(shell)
    shell.cancel()
    shell.end(turn_id, "cancelled")
    following = shell.prompt()
    shell.overdue()
    assert following.answer is None
    assert shell.epoch is not None
    assert not shell.epoch.killed


def test_a_prompt_while_the_worker_is_being_killed_runs_in_the_next(shell: Shell) -> None:
    running(shell)
    shell.cancel()
    shell.overdue()
    following = shell.prompt()
    assert (following.answer, following.ran) == (None, False)
    shell.die()
    shell.ready()
    assert (following.answer, following.ran) == (None, True)
    shell.end(following.turn_id)
    assert following.answer == "end_turn"


def test_a_cancelled_request_that_waits_leaves_the_others(shell: Shell) -> None:
    running(shell)
    second, third = shell.prompt(), shell.prompt()
    shell.do(shell.machine.cancel_request(second.ticket))
    assert (second.answer, third.answer) == ("cancelled", None)
    assert shell.prompts[0].answer is None


def test_a_cancelled_request_whose_turn_runs_cancels_the_turn(shell: Shell) -> None:
    turn_id = running(shell)
    shell.do(shell.machine.cancel_request(shell.prompts[0].ticket))
    assert shell.epoch is not None
    assert shell.epoch.controls == [Cancel(turn_id=turn_id)]


def test_a_ticket_with_an_id_used_twice_names_one_request(shell: Shell) -> None:
    turn_id = running(shell)
    same_id = fx.Ticket(shell.prompts[0].ticket.connection, shell.prompts[0].ticket.id)
    assert shell.machine.cancel_request(same_id) == []
    assert shell.machine.turn is not None
    assert shell.machine.turn.turn_id == turn_id


# What the worker says


def test_every_call_that_was_announced_ends_when_the_turn_does(shell: Shell) -> None:
    turn_id = running(shell)
    for number, status in enumerate(("pending", "in_progress", "completed", "failed")):
        shell.call(f"c{number}", status)
    shell.fail(turn_id)
    assert [update["toolCallId"] for update in shell.said] == ["c0", "c1"]
    assert all(isinstance(update["rawOutput"], dict) for update in shell.said)


def test_a_title_is_the_text_and_not_its_json(shell: Shell) -> None:
    running(shell)
    shell.frame("title", payload='Say "hi" to Jürgen')
    assert shell.titles == ['Say "hi" to Jürgen']


def test_an_answer_to_another_turn_is_none(shell: Shell) -> None:
    running(shell)
    shell.end("another")
    assert shell.prompts[0].answer is None


def test_options_reach_a_ready_worker_at_once_and_a_later_one_with_open(shell: Shell) -> None:
    assert shell.machine.configure({"mode": "plan"}) == []
    running(shell)
    assert opened(shell).options == {"mode": "plan"}
    shell.do(shell.machine.configure({"mode": "default"}))
    assert shell.epoch is not None
    assert shell.epoch.controls == [Configure(options={"mode": "default"})]
    shell.die()
    shell.ready()
    assert opened(shell).options == {"mode": "default"}


# Close


def test_close_answers_all_that_is_open_and_ends_the_worker(shell: Shell) -> None:
    running(shell)
    waiting, load = shell.prompt(), shell.load()
    shell.call("c1")
    ask(shell)
    shell.do(shell.machine.close())
    assert [asked.answer for asked in shell.prompts] == ["cancelled", "cancelled"]
    assert waiting.answer == "cancelled"
    assert shell.replays[load] == "error"
    assert shell.calls == {"c1": "failed"}
    assert shell.open_keys == {}
    assert shell.epoch is not None
    assert shell.epoch.stopped


@pytest.mark.parametrize("wanted", [True, False])
def test_a_closed_session_gets_no_worker_however_its_last_one_ends(shell: Shell, wanted: bool) -> None:
    running(shell)
    shell.do(shell.machine.close())
    shell.die(wanted=wanted)
    assert not shell.has_worker


def test_a_session_closed_while_its_worker_is_killed_gets_no_other(shell: Shell) -> None:
    running(shell)
    shell.cancel()
    shell.overdue()
    shell.do(shell.machine.close())
    shell.die()
    assert not shell.has_worker


def test_a_worker_that_becomes_ready_while_its_session_is_closed_is_told_nothing(shell: Shell) -> None:
    shell.prompt()
    shell.do(shell.machine.close())
    assert shell.machine.ready(0.0) == []


def test_a_close_without_a_worker_stops_none(shell: Shell) -> None:
    assert shell.machine.close() == []
