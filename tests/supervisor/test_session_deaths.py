"""A turn outlives its workers; a session that cannot live says so; an idle one needs no worker."""

from __future__ import annotations

import pytest

from shared.errors import INTERNAL_ERROR, RequestError
from shared.frames import Swept
from supervisor import effects as fx
from supervisor.restarts import DELAYS
from tests.supervisor.shell import Shell
from tests.supervisor.turns import ask, opened, running

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
