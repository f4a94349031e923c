"""A session's turns and its worker's epochs, event by event. `Shell` holds every effect to the rules."""

from __future__ import annotations

import pytest

from shared.errors import INTERNAL_ERROR, RequestError
from shared.frames import Cancel, Configure, Open, Prompt, Replay, Reply, Swept
from supervisor import effects as fx
from supervisor.restarts import DELAYS
from supervisor.session import CANCEL_BEFORE_START, MAX_WAITING, TURN_DROPPED
from tests.supervisor.shell import Shell


@pytest.fixture
def shell() -> Shell:
    return Shell()


def running(shell: Shell) -> str:
    """The id of a turn that runs in a ready worker."""
    asked = shell.prompt()
    shell.up()
    return asked.turn_id


def opened(shell: Shell) -> Open:
    assert shell.epoch is not None
    frame = shell.epoch.got[0]
    assert isinstance(frame, Open)
    return frame


# Prompts


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


# Deaths


def test_an_interrupted_turn_goes_on_in_the_next_epoch(shell: Shell) -> None:
    asked = shell.prompt()
    shell.up()
    shell.call("done", "completed", records=1)
    shell.call("open", "pending", records=2)
    shell.frame("chunk", "m1:agent_message_chunk", "12", b"{}\n", 2)
    shell.die("killed by SIGKILL")
    assert asked.answer is None
    shell.ready()
    frame = opened(shell)
    assert frame.resuming == asked.turn_id
    assert frame.restarted == "killed by SIGKILL"
    assert frame.calls == {"done": "completed", "open": "pending"}
    assert frame.shown == {"m1:agent_message_chunk": 12}
    shell.call("open", "completed")
    shell.end(asked.turn_id)
    assert asked.answer == "end_turn"


def test_an_idle_worker_that_dies_is_replaced_at_once(shell: Shell) -> None:
    shell.end(running(shell))
    shell.die()
    assert shell.epoch is not None
    assert shell.epoch.number == 2
    shell.ready()
    assert opened(shell).resuming is None
    assert opened(shell).restarted is None


def test_with_report_the_turn_of_a_dead_worker_is_an_error_that_says_why() -> None:
    shell = Shell(recover="report")
    asked = shell.prompt()
    shell.up()
    shell.call("c1")
    waiting = shell.prompt()
    shell.die("killed by SIGSEGV")
    assert asked.answer == "error"
    assert waiting.answer == "cancelled"
    assert shell.calls == {"c1": "failed"}
    assert shell.epoch is not None, "the session works on"


def test_with_report_a_cancelled_turn_of_a_dead_worker_is_cancelled() -> None:
    shell = Shell(recover="report")
    asked = shell.prompt()
    shell.up()
    shell.cancel()
    shell.die()
    assert asked.answer == "cancelled"


def test_a_death_before_ready_is_an_error_and_no_restart(shell: Shell) -> None:
    asked, load = shell.prompt(), shell.load()
    effects = shell.machine.exited("exit code 1", 0.0, wanted=False, boots_stopped=False)
    errors = [effect.error for effect in effects if isinstance(effect, fx.Fail)]
    assert {type(effect) for effect in effects} == {fx.Fail}
    assert [error.data["reason"] for error in errors] == ["boot", "boot"]
    assert "exit code 1" in errors[0].data["details"]
    shell.dead.append(shell.epoch) if shell.epoch else None
    shell.epoch = None
    shell.do(effects)
    assert (asked.answer, shell.replays[load]) == ("error", "error")
    again = shell.prompt()
    shell.ready()
    shell.end(again.turn_id)
    assert again.answer == "end_turn"


def test_a_cancelled_prompt_whose_worker_never_starts_is_cancelled(shell: Shell) -> None:
    asked = shell.prompt()
    shell.cancel()
    shell.die()
    assert asked.answer == "cancelled"


def test_a_boot_failure_leaves_no_word_of_a_restart_to_a_later_turn(shell: Shell) -> None:
    asked = shell.prompt()
    shell.die("exit code 1")
    assert asked.answer == "error"
    shell.prompt()
    shell.ready()
    assert opened(shell).restarted is None


def test_a_replacement_killed_while_it_starts_is_replaced_as_well(shell: Shell) -> None:
    running(shell)
    shell.die("killed by SIGKILL")
    shell.die("killed by SIGKILL")
    shell.ready()
    assert opened(shell).restarted == "killed by SIGKILL"


def test_a_session_that_dies_without_progress_fails_until_it_is_loaded(shell: Shell) -> None:
    asked = shell.prompt()
    for _ in DELAYS:
        shell.ready()
        shell.die("killed by SIGSEGV")
        assert asked.answer is None
    shell.ready()
    shell.die("killed by SIGSEGV")
    assert asked.answer == "error"
    assert not shell.has_worker
    refused = shell.machine.prompt(fx.Ticket(1, "x"), [], {})
    assert isinstance(refused[0], fx.Fail)
    assert refused[0].error.code == -32603
    assert "killed by SIGSEGV" in refused[0].error.data["details"]
    load = shell.load()
    epoch = shell.ready()
    shell.frame("answer", epoch.replaying()[0], "", {})
    assert shell.replays[load] == "loaded"
    again = shell.prompt()
    shell.end(again.turn_id)
    assert again.answer == "end_turn"


def test_a_session_that_makes_progress_may_die_often(shell: Shell) -> None:
    asked = shell.prompt()
    for _ in range(10):
        shell.ready()
        shell.frame("chunk", "m:agent_message_chunk", "1", b"{}\n", records=1)
        shell.die()
    shell.ready()
    shell.end(asked.turn_id)
    assert asked.answer == "end_turn"


def test_progress_is_counted_anew_in_each_epoch(shell: Shell) -> None:
    shell.prompt()
    shell.ready()
    shell.frame("chunk", "m:agent_message_chunk", "1", b"{}\n", records=7)
    shell.die()
    for _ in DELAYS[1:]:
        shell.ready()
        shell.die()
    shell.ready()
    shell.die()
    assert shell.machine.failed is not None


def test_a_worker_that_was_told_to_end_is_not_counted_as_dead(shell: Shell) -> None:
    running(shell)
    for _ in range(10):
        shell.die(wanted=True)
        shell.ready()
    assert shell.machine.failed is None
    assert shell.machine.budget.total == 0


def test_tools_of_a_new_epoch_wait_until_the_old_ones_are_swept(shell: Shell) -> None:
    running(shell)
    assert opened(shell).swept
    shell.die()
    shell.ready()
    assert not opened(shell).swept
    shell.do(shell.machine.swept())
    assert shell.epoch is not None
    assert shell.epoch.controls == [Swept()]


def test_a_sweep_that_ends_before_the_next_epoch_is_ready_is_told_by_open(shell: Shell) -> None:
    running(shell)
    shell.die()
    shell.do(shell.machine.swept())
    shell.ready()
    assert opened(shell).swept
    assert shell.epoch is not None
    assert shell.epoch.controls == []


def test_a_worker_that_could_not_start_leaves_nothing_to_be_swept(shell: Shell) -> None:
    shell.prompt()
    shell.die("no process could be started")
    shell.prompt()
    shell.ready()
    assert opened(shell).swept, "its tools would wait for ever"


def test_a_boot_failure_does_not_hide_a_sweep_that_still_goes_on(shell: Shell) -> None:
    running(shell)
    shell.die()
    shell.die("no process could be started")
    shell.prompt()
    shell.ready()
    assert not opened(shell).swept


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


# Requests to the client


def ask(shell: Shell, key: str = "c1:permission") -> None:
    shell.frame("request", key, "session/request_permission", {})


def replies(shell: Shell) -> list[Reply]:
    assert shell.epoch is not None
    return [frame for frame in shell.epoch.got if isinstance(frame, Reply)]


def test_an_answer_goes_to_the_worker_that_asked(shell: Shell) -> None:
    running(shell)
    ask(shell)
    shell.reply("c1:permission", {"outcome": "x"})
    assert replies(shell) == [Reply(key="c1:permission", result={"outcome": "x"})]


def test_a_permission_stays_open_across_epochs_and_is_asked_once(shell: Shell) -> None:
    running(shell)
    ask(shell)
    shell.die()
    shell.ready()
    ask(shell)
    assert shell.asked_keys == ["c1:permission"]
    shell.reply("c1:permission")
    assert len(replies(shell)) == 1


def test_an_answer_that_comes_while_there_is_no_worker_is_kept_for_the_next(shell: Shell) -> None:
    running(shell)
    ask(shell)
    shell.die()
    shell.reply("c1:permission")
    shell.ready()
    assert replies(shell) == []
    ask(shell)
    assert len(replies(shell)) == 1
    assert shell.asked_keys == ["c1:permission"]


def test_an_answer_that_comes_before_the_next_epoch_asks_again_is_kept_until_it_does(shell: Shell) -> None:
    running(shell)
    ask(shell)
    shell.die()
    shell.ready()
    shell.reply("c1:permission")
    assert replies(shell) == []
    ask(shell)
    assert len(replies(shell)) == 1


def test_an_answer_that_died_with_its_worker_is_given_to_the_next(shell: Shell) -> None:
    running(shell)
    ask(shell)
    shell.reply("c1:permission")
    shell.die()
    shell.ready()
    ask(shell)
    assert len(replies(shell)) == 1
    assert shell.asked_keys == ["c1:permission"]


def test_a_second_answer_is_ignored(shell: Shell) -> None:
    running(shell)
    ask(shell)
    shell.reply("c1:permission", "first")
    shell.reply("c1:permission", "second")
    assert [reply.result for reply in replies(shell)] == ["first"]


def test_an_answer_to_what_was_withdrawn_is_ignored(shell: Shell) -> None:
    running(shell)
    ask(shell)
    shell.frame("withdraw", "c1:permission")
    assert shell.open_keys == {}
    shell.reply("c1:permission")
    assert replies(shell) == []


def test_dialogs_are_withdrawn_before_the_turn_is_answered(shell: Shell) -> None:
    turn_id = running(shell)
    ask(shell)
    shell.end(turn_id, "cancelled")
    assert shell.open_keys == {}


# Load


def test_a_replay_that_a_death_cut_short_is_taken_up_where_it_stood(shell: Shell) -> None:
    load = shell.load()
    epoch = shell.ready()
    key = epoch.replaying()[0]
    shell.frame("replay", key, "1", b"{}\n")
    shell.frame("replay", key, "2", b"{}\n")
    shell.die()
    epoch = shell.ready()
    assert epoch.got[1:] == [Replay(request_id=key, skip=2)]
    shell.frame("answer", key, "", {})
    assert shell.replays[load] == "loaded"


def test_a_load_of_a_session_whose_turn_runs_disturbs_nothing(shell: Shell) -> None:
    turn_id = running(shell)
    load = shell.load()
    assert shell.epoch is not None
    shell.frame("answer", shell.epoch.replaying()[0], "", {})
    assert shell.replays[load] == "loaded"
    shell.end(turn_id)
    assert shell.prompts[0].answer == "end_turn"


def test_a_history_that_cannot_be_read_fails_the_load(shell: Shell) -> None:
    load = shell.load()
    epoch = shell.ready()
    error = {"code": -32603, "message": "Internal error", "data": {"details": "cannot be read"}}
    shell.frame("answer", epoch.replaying()[0], "error", error)
    assert shell.replays[load] == "error"


# Sleep, and turns that an earlier front left


def test_an_idle_worker_is_given_back_and_the_next_prompt_starts_another(shell: Shell) -> None:
    shell.end(running(shell))
    shell.do(shell.machine.hibernate())
    assert shell.epoch is not None
    assert shell.epoch.stopped
    shell.die(wanted=True)
    assert not shell.has_worker
    asked = shell.prompt()
    shell.ready()
    shell.end(asked.turn_id)
    assert asked.answer == "end_turn"


def test_what_is_asked_while_a_worker_goes_to_sleep_wakes_the_next(shell: Shell) -> None:
    shell.end(running(shell))
    shell.do(shell.machine.hibernate())
    asked, load = shell.prompt(), shell.load()
    shell.die(wanted=True)
    epoch = shell.ready()
    shell.frame("answer", epoch.replaying()[0], "", {})
    shell.end(asked.turn_id)
    assert (asked.answer, shell.replays[load]) == ("end_turn", "loaded")


@pytest.mark.parametrize("busy", ["turn", "load", "background"])
def test_a_worker_that_is_needed_is_not_sent_to_sleep(shell: Shell, busy: str) -> None:
    turn_id = running(shell)
    if busy != "turn":
        shell.end(turn_id)
    if busy == "load":
        shell.load()
    shell.machine.background = int(busy == "background")
    assert shell.machine.hibernate() == []


def test_a_turn_of_an_earlier_front_is_taken_up_by_its_id(shell: Shell) -> None:
    taken = shell.take_up()
    assert taken is not None
    shell.ready()
    assert opened(shell).resuming == taken.turn_id
    waiting = shell.prompt()
    shell.end(taken.turn_id)
    assert waiting.ran


def test_a_client_that_is_quicker_keeps_its_turn(shell: Shell) -> None:
    asked = shell.prompt()
    assert shell.take_up() is None
    shell.ready()
    shell.end(asked.turn_id)
    assert asked.answer == "end_turn"


def test_when_the_agent_ends_all_prompts_are_told_and_every_call_ends(shell: Shell) -> None:
    running(shell)
    waiting = shell.prompt()
    shell.call("c1", "in_progress")
    ask(shell)
    shell.do(shell.machine.agent_ends(RequestError(INTERNAL_ERROR, "The agent ends.")))
    assert [asked.answer for asked in shell.prompts] == ["error", "error"]
    assert waiting.answer == "error"
    assert (shell.calls, shell.open_keys) == ({"c1": "failed"}, {})


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
