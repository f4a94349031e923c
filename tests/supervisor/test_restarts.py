"""How often a dead worker is replaced, and when starting more of them helps nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.restarts import BOOT_FAILURES, BOOT_WINDOW, DELAYS, PROVEN, BootBreaker, RestartBudget


def die(budget: RestartBudget, *, progressed: bool = False, lived: float = 0.0) -> float | None:
    return budget.on_death(progressed=progressed, lived=lived, jitter=0.0)


def test_the_first_restart_is_at_once_and_the_next_ones_wait_longer() -> None:
    budget = RestartBudget()
    assert [die(budget) for _ in DELAYS] == [0.0, 0.25, 1.0]


def test_without_progress_a_session_fails() -> None:
    budget = RestartBudget()
    for _ in DELAYS:
        die(budget)
    assert die(budget) is None
    assert die(budget) is None


@pytest.mark.parametrize("by", [{"progressed": True}, {"lived": PROVEN}])
def test_progress_or_a_long_life_starts_the_count_anew(by: dict[str, float]) -> None:
    budget = RestartBudget()
    for _ in DELAYS:
        die(budget)
    assert budget.on_death(progressed=bool(by.get("progressed")), lived=by.get("lived", 0), jitter=0) == 0.0
    assert die(budget) == 0.25


def test_a_load_starts_the_count_anew_and_keeps_the_total() -> None:
    budget = RestartBudget()
    for _ in range(5):
        die(budget)
    budget.clear()
    assert die(budget) == 0.0
    assert budget.total == 6


@given(st.floats(0, 1), st.integers(1, len(DELAYS)))
def test_jitter_only_lengthens_a_wait_and_by_a_fifth_at_most(jitter: float, deaths: int) -> None:
    budget = RestartBudget(deaths=deaths - 1)
    delay = budget.on_death(progressed=False, lived=0.0, jitter=jitter)
    assert delay is not None
    assert DELAYS[deaths - 1] <= delay <= DELAYS[deaths - 1] * 1.2 + 1e-9


@given(st.lists(st.booleans(), max_size=60))
def test_a_session_fails_exactly_after_too_many_deaths_in_a_row(progress: list[bool]) -> None:
    budget, in_a_row = RestartBudget(), 0
    for progressed in progress:
        in_a_row = 1 if progressed else in_a_row + 1
        assert (budget.on_death(progressed=progressed, lived=0.0) is None) == (in_a_row > len(DELAYS))
    assert budget.total == len(progress)


def test_ten_boot_failures_within_ten_seconds_open_the_breaker() -> None:
    breaker = BootBreaker()
    for number in range(BOOT_FAILURES):
        assert not breaker.is_open(number * 0.1)
        breaker.on_boot_failure(number * 0.1)
    assert breaker.is_open(1.0)


def test_the_breaker_closes_when_the_failures_are_long_ago() -> None:
    breaker = BootBreaker()
    for _ in range(BOOT_FAILURES):
        breaker.on_boot_failure(0.0)
    assert breaker.is_open(BOOT_WINDOW)
    assert not breaker.is_open(BOOT_WINDOW + 0.01)


def test_a_worker_that_starts_closes_the_breaker() -> None:
    breaker = BootBreaker()
    for _ in range(BOOT_FAILURES):
        breaker.on_boot_failure(0.0)
    breaker.on_boot()
    assert not breaker.is_open(0.0)


def test_failures_that_are_far_apart_never_open_it() -> None:
    breaker = BootBreaker()
    for number in range(100):
        breaker.on_boot_failure(number * (BOOT_WINDOW / (BOOT_FAILURES - 1) + 0.1))
        assert not breaker.is_open(number * (BOOT_WINDOW / (BOOT_FAILURES - 1) + 0.1))
