"""A worker has its session's folders for life, so other folders want another worker, at the next turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.supervisor.turns import opened, running

if TYPE_CHECKING:
    from tests.supervisor.shell import Shell


def stopped(shell: Shell) -> bool:
    return shell.epoch is not None and shell.epoch.stopped


def test_a_worker_with_the_old_folders_takes_no_further_turn(shell: Shell) -> None:
    first = running(shell)
    second = shell.prompt("and then")
    shell.do(shell.machine.replace_worker())
    assert not stopped(shell), "a turn that runs is not disturbed"
    shell.end(first)
    assert (stopped(shell), second.ran) == (True, False)
    shell.die("as asked", wanted=True)
    shell.machine.directories = ["/other"]
    shell.up()
    assert opened(shell).directories == ["/other"]
    assert second.ran
    shell.end(second.turn_id)
    shell.prompt()
    assert not stopped(shell), "once is enough"


def test_an_idle_worker_with_the_old_folders_goes_at_once(shell: Shell) -> None:
    shell.end(running(shell))
    shell.do(shell.machine.replace_worker())
    assert stopped(shell)


def test_no_worker_is_started_only_to_be_replaced(shell: Shell) -> None:
    shell.do(shell.machine.replace_worker())
    assert shell.epoch is None
    running(shell)
    assert not stopped(shell)


def test_background_tasks_keep_the_worker_that_has_them(shell: Shell) -> None:
    first = running(shell)
    shell.machine.background = 1
    shell.do(shell.machine.replace_worker())
    shell.end(first)
    shell.end(shell.prompt().turn_id)
    assert not stopped(shell)
    shell.machine.background = 0
    third = shell.prompt()
    assert (stopped(shell), third.ran) == (True, False)
