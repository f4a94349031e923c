"""Idle sessions give their workers back, and only those that nothing needs."""

from __future__ import annotations

from supervisor.hibernation import Worker, sleepers


def test_a_session_idle_for_long_sleeps() -> None:
    workers = [Worker("old", 0.0), Worker("new", 95.0), Worker("busy", None)]
    assert sleepers(workers, now=100.0, after=10.0, most=64) == ["old"]


def test_beyond_the_limit_the_least_recently_used_idle_ones_sleep() -> None:
    workers = [Worker("b", 2.0), Worker("a", 1.0), Worker("busy", None), Worker("c", 3.0)]
    assert sleepers(workers, now=4.0, after=600.0, most=2) == ["a", "b"]


def test_busy_ones_never_sleep_however_many_there_are() -> None:
    assert sleepers([Worker(str(i), None) for i in range(9)], now=0.0, after=1.0, most=1) == []
