"""What a client is asked it is asked once, and a load is taken up where it stood."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.frames import Replay, Reply
from tests.supervisor.turns import ask, replies, running

# Requests to the client

if TYPE_CHECKING:
    from tests.supervisor.shell import Shell


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
