"""Sessions that stream while processes are killed and hung lose nothing; and the judge would see it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ops.chaos_run.plan import done, script, strikes
from ops.chaos_run.player import Delta, Player, Turn
from ops.chaos_run.striker import Hit
from ops.chaos_run.verdict import Seen, judge

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ops.chaos_run", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(150)
def test_a_short_run_loses_and_repeats_nothing() -> None:
    ended = run("--sessions", "3", "--seconds", "2", "--seed", "11")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert int(ended.stdout.split("turns finished")[1].split()[0]) > 3
    assert int(ended.stdout.split("restarts")[1].split()[0]) > 3


@pytest.mark.timeout(150)
@pytest.mark.chaos
def test_clients_that_come_and_vanish_in_a_short_run_cost_nothing() -> None:
    ended = run("--sessions", "4", "--seconds", "6", "--seed", "12", "--clients", "25")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert int(ended.stdout.split("came and vanished")[1].split()[0]) > 50


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", ["201", "202"])
def test_fifty_clients_that_come_and_vanish_for_a_minute_cost_nothing(seed: str) -> None:
    ended = run("--sessions", "10", "--seconds", "60", "--seed", seed, "--clients", "50")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", ["101", "102", "103"])
def test_a_long_run_loses_and_repeats_nothing(seed: str) -> None:
    ended = run("--sessions", "20", "--seconds", "60", "--seed", seed)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_same_seed_gives_the_same_plan() -> None:
    assert strikes(7, 20, 60.0) == strikes(7, 20, 60.0) != strikes(8, 20, 60.0)
    assert script(7, 3, 5) == script(7, 3, 5)
    plan = strikes(7, 20, 60.0)
    assert 200 < len(plan) < 400
    assert [strike.kind for strike in plan].count("front") == 1
    assert 2 <= [strike.kind for strike in plan].count("zygote") <= 4


def good(folder: Path) -> Seen:
    """A run in which one turn of one session ended as it should, with one tool call."""
    made = next(s for n in range(99) if len((s := script(1, 0, n)).replies) == 2)
    turn = Turn(made, began=10.0, ended=20.0, outcome="end_turn", text=done(made.name))
    turn.deltas = [
        Delta(r, n, f"m{r}", 11.0 + r) for r, count in enumerate(made.replies) for n in range(count)
    ]
    turn.calls, turn.commands = {"c": "completed"}, {"c": "echo t1 >> effects; sleep 0"}
    player = Player(1, 0, folder)
    player.session_id, player.turns = "s", [turn]
    log = [
        {"message": "worker ready", "session": "s", "epoch": 1, "worker": 77},
        {"message": "worker ended", "session": "s", "epoch": 1, "worker": 77, "reason": "SIGKILL"},
    ]
    answers = [Counter({"session/prompt 1": 1})]
    return Seen([player], [Hit(40.0, "kill", 77)], {0: ["t1"]}, log, answers, bad_lines=0, left=[], died=0)


def hit(seen: Seen) -> None:
    seen.hits = [Hit(15.0, "kill", 77)]


def turn_of(seen: Seen) -> Turn:
    return seen.players[0].turns[0]


def restarted(seen: Seen) -> None:
    """The first reply was cut after two deltas and came again, whole, under a new id."""
    hit(seen)
    turn = turn_of(seen)
    turn.deltas[:0] = [Delta(0, 0, "cut", 10.5), Delta(0, 1, "cut", 10.6)]


@pytest.mark.parametrize("change", [lambda seen: None, hit, restarted])
def test_a_good_run_passes(tmp_path: Path, change: Callable[[Seen], Any]) -> None:
    seen = good(tmp_path)
    change(seen)
    assert judge(seen).faults.total() == 0


def lost_delta(seen: Seen) -> None:
    del turn_of(seen).deltas[3]


def swapped_deltas(seen: Seen) -> None:
    deltas = turn_of(seen).deltas
    deltas[2], deltas[3] = deltas[3], deltas[2]


def lost_after_restart(seen: Seen) -> None:
    restarted(seen)
    del turn_of(seen).deltas[-1]


def torn_message(seen: Seen) -> None:
    restarted(seen)
    del turn_of(seen).deltas[0]


def repeated_effect(seen: Seen) -> None:
    seen.effects[0].append("t1")


def missing_effect(seen: Seen) -> None:
    seen.effects.clear()


def open_call(seen: Seen) -> None:
    turn_of(seen).calls["c"] = "in_progress"


def doubled_answer(seen: Seen) -> None:
    seen.answers[0]["session/prompt 1"] = 2


def missing_answer(seen: Seen) -> None:
    seen.answers[0]["session/prompt 1"] = 0


def failed_turn(seen: Seen) -> None:
    turn_of(seen).outcome = "error"


def false_alarm(seen: Seen) -> None:
    seen.hits = []


def dead_front(seen: Seen) -> None:
    seen.died = 1


def left_process(seen: Seen) -> None:
    seen.left = ["77 running sleep 60"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lost_delta, "deltas lost in sessions not hit"),
        (swapped_deltas, "deltas lost in sessions not hit"),
        (lost_after_restart, "replies never whole in turns that went on"),
        (torn_message, "deltas lost within a message"),
        (repeated_effect, "tool effects repeated"),
        (missing_effect, "tool effects told but missing"),
        (open_call, "tool calls left open"),
        (doubled_answer, "answers missing or doubled"),
        (missing_answer, "answers missing or doubled"),
        (failed_turn, "turns failed without a cause"),
        (false_alarm, "restarts without a cause"),
        (dead_front, "fronts that ended by themselves"),
        (left_process, "processes left"),
    ],
)
def test_the_judge_sees_what_went_wrong(tmp_path: Path, change: Callable[[Seen], Any], fault: str) -> None:
    seen = good(tmp_path)
    change(seen)
    verdict = judge(seen)
    assert {name for name, count in verdict.faults.items() if count} == {fault}
