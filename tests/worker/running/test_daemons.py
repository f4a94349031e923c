"""Whose a process is that left its session and has no output, and whose environment tells nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from tests.worker.running.watching import alive, seconds, until
from worker.tools.task_output import TOOL as TASK_OUTPUT
from worker.tools.task_output import TaskOutputInput
from worker.tools.task_stop import TOOL as TASK_STOP
from worker.tools.task_stop import TaskStopInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.running.conftest import Bash
    from worker.tools.base import ToolContext

pytestmark = pytest.mark.anyio

_DAEMONS = {
    "no environment": "env -i setsid -f sleep {}",
    "a title over its environment": f"setsid -f {sys.executable} -c "
    "'import setproctitle, time; setproctitle.setproctitle(\"db {}\"); time.sleep(600)'",
}
_WAIT = "until [ -e {} ]; do sleep 0.02; done"


@pytest.fixture(params=_DAEMONS)
def daemon(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A command that starts one and returns when it is up, and how it is known."""
    mark = seconds()
    start = _DAEMONS[request.param].format(mark)
    # Not pgrep -f: the shell's own command line holds the mark too.
    up = f"until ps -eo args= | grep -Eq '^(sleep|db) {mark}$'; do sleep 0.02; done"
    return f"{start} </dev/null >/dev/null 2>&1; {up}", mark


async def test_a_call_leaves_alone_what_a_background_task_started(
    bash: Bash, context: Callable[..., ToolContext], daemon: tuple[str, str]
) -> None:
    start, mark = daemon
    started = await bash(f"{_WAIT.format('go')}; {start}; touch up", run_in_background=True)
    output = await bash(f"touch go; {_WAIT.format('up')}; echo x")
    assert output.text == "x\n"
    assert len(alive(mark)) >= 1
    stopped = await TASK_STOP.run(TaskStopInput(task_id=started.raw["taskId"]), context())
    assert "stopped" in stopped.text
    assert alive(mark) == []


async def test_a_background_task_runs_while_its_daemon_does(
    bash: Bash, context: Callable[..., ToolContext], daemon: tuple[str, str]
) -> None:
    start, mark = daemon
    started = await bash(f"{start}; echo up", run_in_background=True)
    task_id = started.raw["taskId"]
    shell = psutil.Process(started.raw["pid"])
    await until(lambda: shell.status() == psutil.STATUS_ZOMBIE)
    # Long enough for the end to be noticed: a task without a daemon has ended by then.
    seen = await TASK_OUTPUT.run(TaskOutputInput(task_id=task_id, wait=1), context())
    assert seen.raw["running"] is True
    for pid in alive(mark):
        psutil.Process(pid).kill()
    seen = await TASK_OUTPUT.run(TaskOutputInput(task_id=task_id, wait=10), context())
    assert "ended: exit 0" in seen.text


async def test_a_call_ends_its_daemon_while_another_runs(bash: Bash, daemon: tuple[str, str]) -> None:
    start, mark = daemon
    async with anyio.create_task_group() as group:
        group.start_soon(bash, "until [ -e ended ]; do sleep 0.02; done")
        output = await bash(f"{start}; echo x")
        assert output.text.startswith("x\n")
        assert "1 process that it left running" in output.text
        assert alive(mark) == []
        await bash("touch ended")


async def test_what_sheds_every_mark_ends_with_the_only_call_or_else_with_the_worker(bash: Bash) -> None:
    mark = seconds()
    start = f"ulimit -Sx unlimited; env -i setsid -f sleep {mark} </dev/null >/dev/null 2>&1"
    up = f"until pgrep -fx 'sleep {mark}'; do sleep 0.02; done"
    assert "1 process that it left running" in (await bash(f"{start}; {up}")).text
    assert alive(mark) == []
    command = f"{_WAIT.format('go')}; {start}; {up}; touch up; {_WAIT.format('end')}"
    task = (await bash(command, run_in_background=True)).raw["pid"]
    ended = f"while kill -0 {task} 2>/dev/null; do sleep 0.02; done"
    output = await bash(f"touch go; {_WAIT.format('up')}; touch end; {ended}; echo x")
    assert output.text == "x\n"
    [pid] = alive(mark)
    psutil.Process(pid).kill()
    await until(lambda: not psutil.pid_exists(pid))
