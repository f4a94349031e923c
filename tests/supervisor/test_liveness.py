"""Who hangs and who does not, with a clock that is a number: no false alarm, and no hang that goes unseen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.settings import Settings
from supervisor.liveness import IDLE_ROUNDS, LATE, PING_EVERY, Liveness, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = Settings()
STEP = 0.25


@pytest.fixture
def liveness() -> Liveness:
    return Liveness(SETTINGS)


def run(
    liveness: Liveness, start: float, end: float, answers: Callable[[str, float], bool] = lambda _k, _t: False
) -> list[tuple[float, str, Verdict]]:
    """Do what the front's watch does from `start` to `end`; who is hung is forgotten: it gets killed."""
    found: list[tuple[float, str, Verdict]] = []
    now = start
    while now <= end:
        for key, verdict in liveness.check(now):
            found.append((now, key, verdict))
            if verdict is Verdict.HUNG:
                liveness.forget(key)
        for key in liveness.pings_due(now):
            if answers(key, now):
                liveness.heard(key, now)
        now = max(now + 0.001, liveness.next_at(now))
    return found


def test_a_worker_that_answers_is_never_suspected(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    assert run(liveness, 0.0, 600.0, lambda _key, _now: True) == []


def test_an_idle_worker_that_is_silent_is_unresponsive_and_then_hung(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    found = run(liveness, 0.0, 30.0)
    assert [(key, verdict) for _, key, verdict in found] == [("a", Verdict.UNRESPONSIVE), ("a", Verdict.HUNG)]
    assert found[0][0] == pytest.approx(SETTINGS.unresponsive_after, abs=0.01)
    assert found[1][0] == pytest.approx(SETTINGS.kill_after_idle, abs=0.01)


def test_in_a_turn_it_is_given_longer(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    liveness.in_turn("a", True)
    found = run(liveness, 0.0, 30.0)
    assert found[1][0] == pytest.approx(SETTINGS.kill_after_in_turn, abs=0.01)


def test_one_that_answers_again_is_told_and_starts_anew(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    run(liveness, 0.0, 4.0)
    assert liveness.is_unresponsive("a")
    assert liveness.heard("a", 4.0) is Verdict.RESPONSIVE
    assert liveness.heard("a", 4.1) is None
    assert not liveness.is_unresponsive("a")
    assert run(liveness, 4.0, 6.9) == []


def test_one_that_a_debugger_holds_is_counted_anew_as_often_as_that_is_seen(liveness: Liveness) -> None:
    liveness.watch("a", 0)
    for now in (3.0, 6.0, 9.0):
        assert liveness.check(now) == [("a", Verdict.UNRESPONSIVE)]
        liveness.restart("a", now)
    assert liveness.check(14.0)[-1] == ("a", Verdict.HUNG), "it hangs when it is let go"
    liveness.restart("nobody", 14.0)
    assert not liveness.is_unresponsive("nobody")


def test_one_worker_that_hangs_casts_no_doubt_on_the_others(liveness: Liveness) -> None:
    for key in ("a", "b", "c"):
        liveness.watch(key, 0.0)
    found = run(liveness, 0.0, 60.0, lambda key, _now: key != "b")
    assert {key for _, key, _ in found} == {"b"}


def test_a_front_that_was_late_suspects_nobody(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    liveness.next_at(0.0)
    assert liveness.check(300.0) == []
    assert run(liveness, 300.0, 600.0, lambda _key, _now: True) == []


def test_a_hang_is_found_in_its_time_after_the_front_was_late(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    liveness.next_at(0.0)
    # The answer that had come meanwhile is taken first, then the check that is late forgives.
    liveness.heard("a", 300.0)
    found = run(liveness, 300.0, 320.0)
    assert found[-1][2] is Verdict.HUNG
    assert found[-1][0] == pytest.approx(300.0 + SETTINGS.kill_after_idle, abs=0.01)


def test_a_hang_is_found_in_its_time_after_the_machine_slept(liveness: Liveness) -> None:
    # The monotonic clock stands still while a machine sleeps, so all of the night may be forgiven in excess.
    liveness.watch("a", 0.0)
    liveness.forgive(8 * 3600.0)
    found = run(liveness, 1.0, 20.0)
    assert found[-1][2] is Verdict.HUNG
    assert found[-1][0] == pytest.approx(1.0 + SETTINGS.kill_after_idle, abs=0.01)


def test_who_was_forgotten_or_never_watched_is_not_judged(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    liveness.forget("a")
    liveness.forget("a")
    liveness.in_turn("a", True)
    assert liveness.heard("a", 1.0) is None
    assert not liveness.is_unresponsive("a")
    assert run(liveness, 0.0, 60.0) == []


def pings(liveness: Liveness, turning: set[str]) -> list[str]:
    """Who is pinged in ten seconds, while these are in a turn."""
    pinged: list[str] = []
    now = 0.0
    for key in ("a", "b"):
        liveness.watch(key, now)
        liveness.in_turn(key, key in turning)
    while now < 10.0:
        liveness.check(now)
        pinged += liveness.pings_due(now)
        now = liveness.next_at(now)
    return sorted(pinged)


def test_who_is_in_a_turn_is_pinged_each_second_and_who_is_idle_half_as_often(liveness: Liveness) -> None:
    assert pings(liveness, {"a"}) == ["a"] * int(10 / PING_EVERY) + ["b"] * int(10 / PING_EVERY / IDLE_ROUNDS)


def test_all_are_pinged_each_second_where_silence_soon_counts() -> None:
    hasty = Liveness(SETTINGS.model_copy(update={"unresponsive_after": 1.5}))
    assert pings(hasty, set()) == ["a"] * 10 + ["b"] * 10


def test_nobody_to_watch_is_no_busy_loop(liveness: Liveness) -> None:
    liveness.pings_due(5.0)
    assert liveness.next_at(5.0) == 5.0 + PING_EVERY


def test_a_hung_worker_that_is_still_there_is_told_again_and_is_no_busy_loop(liveness: Liveness) -> None:
    liveness.watch("a", 0.0)
    now, looks, told = 0.0, 0, 0
    while now < 60.0:
        looks += 1
        told += ("a", Verdict.HUNG) in liveness.check(now)
        liveness.pings_due(now)
        now = liveness.next_at(now)
    assert told > 1
    assert looks < 70


@given(
    st.lists(st.tuples(st.sampled_from(["ack", "turn", "idle", "wait"]), st.floats(0.01, 4.0)), max_size=80)
)
def test_hung_is_whoever_was_silent_for_the_limit_and_nobody_else(events: list[tuple[str, float]]) -> None:
    liveness, now, heard, limit = Liveness(SETTINGS), 0.0, 0.0, SETTINGS.kill_after_idle
    liveness.watch("a", now)
    for event, seconds in events:
        if event == "ack":
            liveness.heard("a", now)
            heard = now
        elif event in ("turn", "idle"):
            liveness.in_turn("a", event == "turn")
            limit = SETTINGS.kill_after_in_turn if event == "turn" else SETTINGS.kill_after_idle
        hung = False
        end = now + seconds
        while now < end and not hung:
            due = liveness.next_at(now)
            assert due - now <= PING_EVERY + LATE
            now = min(max(due, now + 1e-6), end)
            hung = ("a", Verdict.HUNG) in liveness.check(now)
            liveness.pings_due(now)
        assert hung == (now - heard >= limit - 1e-9) or abs(now - heard - limit) < 1e-5
        if hung:
            return
