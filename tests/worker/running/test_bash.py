"""The bash tool and the background tasks, with real shells."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest

from shared.processes import descendants
from tests.worker.running.watching import alive, open_descriptors, seconds, until
from worker.leftovers import KEPT, MARKER
from worker.tools.base import ToolContext, ToolError, ToolOutput
from worker.tools.bash import TOOL, BashInput
from worker.tools.task_list import TOOL as TASK_LIST
from worker.tools.task_list import TaskListInput
from worker.tools.task_output import TOOL as TASK_OUTPUT
from worker.tools.task_output import TaskOutputInput
from worker.tools.task_stop import TOOL as TASK_STOP
from worker.tools.task_stop import TaskStopInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.worker.running.conftest import Bash
    from worker.tools.processes import Processes

pytestmark = pytest.mark.anyio


async def test_output_and_success(bash: Bash) -> None:
    output = await bash("echo out; echo err >&2")
    assert output.text == "out\nerr\n"
    assert not output.is_error
    assert output.raw == {"exitCode": 0, "output": "out\nerr\n"}


@pytest.mark.parametrize(
    ("command", "told", "code"),
    [
        ("exit 3", "[exit 3]", 3),
        ("kill -9 $$", "[exit 137 (SIGKILL)]", 137),
        ("sh -c 'kill -9 $$'; exit $?", "[exit 137 (SIGKILL)]", 137),
        ("kill -SEGV $$", "[exit 139 (SIGSEGV)]", 139),
        ("no-such-program-here", "[exit 127]", 127),
        ("exit 255", "[exit 255]", 255),
        ("exit 163", "[exit 163]", 163),
        ("kill -34 $$", "[exit 162 (SIGRTMIN)]", 162),
        ("kill -35 $$", "[exit 163 (SIGRTMIN+1)]", 163),
        ("kill -63 $$", "[exit 191 (SIGRTMIN+29)]", 191),
    ],
)
async def test_exit_codes_and_signals_are_told(bash: Bash, command: str, told: str, code: int) -> None:
    output = await bash(command)
    assert output.text.endswith(told)
    assert output.is_error
    assert output.raw["exitCode"] == code


async def test_there_is_no_terminal_and_no_input(bash: Bash) -> None:
    output = await bash("tty; cat; read x; echo $?; (: < /dev/tty) 2>&1; ps -o tty= -p $$")
    assert re.fullmatch(r"not a tty\n1\n.*/dev/tty: [^\n]*\n\?\s*\n", output.text, re.DOTALL)


async def test_a_command_leads_its_own_session_in_the_sessions_folder(bash: Bash, folder: Path) -> None:
    output = await bash("ps -o sid=,pgid= -p $$; echo $$; pwd -P")
    sid, pgid, pid, cwd = output.text.split()
    assert sid == pgid == pid
    assert cwd == str(folder)
    assert int(sid) != os.getsid(0)


async def test_programs_neither_page_nor_ask_nor_colour(bash: Bash) -> None:
    environment = {"PATH": os.environ["PATH"], "FORCE_COLOR": "1", "EDITOR": "vi", "MINE": "kept"}
    output = await bash("env", environment=environment)
    told = dict(line.split("=", 1) for line in output.text.splitlines())
    assert told["PAGER"] == told["GIT_PAGER"] == "cat"
    assert (told["TERM"], told["NO_COLOR"], told["GIT_TERMINAL_PROMPT"]) == ("dumb", "1", "0")
    assert told["EDITOR"] == "true"
    assert told["MINE"] == "kept"
    assert "FORCE_COLOR" not in told
    assert "CI" not in told


@pytest.mark.parametrize("asked_by", ["GIT_ASKPASS", "SSH_ASKPASS", "core.askPass"])
async def test_git_does_not_ask_in_a_window(bash: Bash, folder: Path, asked_by: str) -> None:
    asker = folder / "ask"
    await anyio.Path(asker).write_text('#!/bin/sh\ntouch "$0.asked"\necho secret\n')
    await anyio.Path(asker).chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    git = "git"
    if asked_by == "core.askPass":
        git = f"git -c core.askPass={asker}"
    else:
        environment[asked_by] = str(asker)
    command = f"printf 'protocol=https\\nhost=example.org\\n\\n' | {git} credential fill"
    output = await bash(command, environment=environment)
    assert "terminal prompts disabled" in output.text
    assert output.raw["exitCode"] == 128
    assert not await anyio.Path(f"{asker}.asked").exists()


async def test_a_folder_that_only_looks_like_a_repository_runs_nothing(bash: Bash, folder: Path) -> None:
    evil = anyio.Path(folder / "evil")
    for inner in ("objects", "refs", "tree"):
        await (evil / inner).mkdir(parents=True)
    await (evil / "HEAD").write_text("ref: refs/heads/main\n")
    await (evil / "config").write_text(
        '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = "tree"\n'
        f'fsmonitor = "touch {folder}/ran; true"\n'
    )
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "Mine",
    }
    output = await bash("git config user.name; cd evil && git status", environment=environment)
    assert "Mine" in output.text
    assert not await anyio.Path(folder / "ran").exists()
    assert "safe.bareRepository" in output.text


@pytest.mark.parametrize(
    "command",
    [
        "sleep {} & echo x",
        "nohup sleep {} & echo x",
        "setsid sleep {} & echo x",
        "setsid -f sleep {}; echo x",
        "(sleep {} & ) ; echo x",
        "(setsid sh -c 'sleep {} & wait' >/dev/null 2>&1 </dev/null & ) ; sleep 0.1; echo x",
        "env -i setsid -f sleep {} >/dev/null 2>&1; echo x",
        "trap '' TERM; sleep {} & echo x",
        "disown -a; sleep {} & disown; echo x",
    ],
)
async def test_a_call_ends_with_its_shell_and_leaves_nothing(bash: Bash, command: str) -> None:
    mark = seconds()
    with anyio.fail_after(5):
        output = await bash(command.format(mark))
    assert output.text.startswith("x\n")
    assert "left running" in output.text
    assert not output.is_error
    assert alive(mark) == []


async def test_output_that_a_filter_still_holds_is_not_lost(bash: Bash) -> None:
    output = await bash("exec > >(sleep 0.05; tr a-z A-Z); echo late")
    assert output.text.startswith("LATE\n")


async def test_a_time_out_ends_the_tree_and_keeps_the_output(bash: Bash) -> None:
    mark = seconds()
    output = await bash(f"echo before; setsid sleep {mark} & sleep {mark}; echo after", timeout=0.3)
    assert output.text.startswith("before\n")
    assert "timed out after 0.3 s" in output.text
    assert "after\n" not in output.text
    assert "exit 143 (SIGTERM)" in output.text
    assert output.is_error
    assert output.raw["timedOut"] is True
    assert alive(mark) == []


async def test_no_time_out_is_longer_than_the_settings_allow(bash: Bash, processes: Processes) -> None:
    processes.longest = 0.3
    for asked in ({"timeout": 500}, {}):
        output = await bash(f"sleep {seconds()}", **asked)
        assert "timed out after 0.3 s and was ended; use run_in_background" in output.text


async def test_a_time_out_gives_a_command_two_seconds_to_end_itself(bash: Bash) -> None:
    output = await bash("trap 'sleep 0.2; echo cleaned; exit 5' TERM; echo up; sleep 60 & wait", timeout=0.3)
    assert "cleaned" in output.text
    assert "[exit 5]" in output.text


async def test_sigterm_comes_once(bash: Bash) -> None:
    command = "n=0; trap 'n=$((n+1))' TERM; while [ $n = 0 ]; do sleep 0.05; done; sleep 0.3; echo got $n"
    assert "got 1\n" in (await bash(command, timeout=0.3)).text


async def test_what_ignores_sigterm_is_killed(bash: Bash) -> None:
    mark = seconds()
    output = await bash(f"trap '' TERM; sleep {mark}; sleep {mark}", timeout=0.2)
    assert "exit 137 (SIGKILL)" in output.text
    assert alive(mark) == []


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan, "soon"])
def test_an_impossible_time_out_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout"):
        BashInput(command="true", timeout=timeout)


async def test_cancel_returns_at_once_and_the_next_call_waits_for_the_end(
    bash: Bash, processes: Processes
) -> None:
    mark = seconds()
    started = anyio.current_time()
    with anyio.move_on_after(0.3):
        await bash(f"trap '' TERM; setsid sleep {mark} & sleep {mark}; sleep {mark}; sleep {mark}")
    returned = anyio.current_time() - started
    assert returned < 0.45  # SIGKILL comes 0.5 s after the cancel, so this did not wait for it
    assert alive(mark) != []
    with anyio.fail_after(5):
        await processes.settle()
    assert alive(mark) == []
    assert (await bash("echo next")).text == "next\n"


async def test_a_neighbour_is_not_swept(bash: Bash) -> None:
    mark = seconds()
    texts: list[str] = []

    async def long() -> None:
        texts.append(
            (await bash(f"(setsid sh -c 'sleep {mark}' & ); sleep 1; pgrep -fc 'sleep {mark}'")).text
        )

    async with anyio.create_task_group() as group:
        group.start_soon(long)
        await until(lambda: alive(mark) != [])
        for _ in range(5):
            await bash("sleep 60 & true")
    assert int(texts[0].split()[0]) >= 1
    assert alive(mark) == []


async def test_children_of_other_parts_of_the_worker_are_not_swept(bash: Bash) -> None:
    mark = seconds()
    async with await anyio.open_process(["sleep", mark], env={**os.environ, MARKER: KEPT}) as server:
        await bash("sleep 60 & true")
        assert alive(mark) == [server.pid]
        server.kill()


async def test_hundreds_of_leftovers_end(bash: Bash) -> None:
    output = await bash("for i in $(seq 700); do sleep 60 & done; echo done")
    assert output.text.startswith("done\n")
    assert descendants(os.getpid()) == []


async def test_two_hundred_megabytes_stay_out_of_memory(bash: Bash) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    output = await bash("yes 'a line of text' | head -c 200000000; echo end")
    assert process.memory_info().rss - before < 20 * 2**20
    assert len(output.text) < 32_000
    assert output.text.endswith("end\n")


async def test_one_endless_line_and_bytes_of_any_kind(bash: Bash) -> None:
    output = await bash("head -c 3000000 /dev/zero; head -c 300000 /dev/urandom")
    output.text.encode()
    assert output.text.startswith("␀␀␀")
    assert len(output.text) < 32_000


async def test_output_is_shown_as_it_comes(bash: Bash, folder: Path) -> None:
    shown: list[str] = []

    async def run() -> None:
        await bash("echo one; until [ -e go ]; do sleep 0.02; done; echo two", shown=shown)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: "one\n" in shown)
        await anyio.Path(folder / "go").touch()


async def test_a_client_that_does_not_read_does_not_hold_up_a_command(
    context: Callable[..., ToolContext],
) -> None:
    async def never(text: str) -> None:
        await anyio.sleep_forever()

    blocked = dataclasses.replace(context(), progress=never)
    with anyio.fail_after(10):
        output = await TOOL.run(BashInput(command="echo a; sleep 0.3; seq 200000 | tail -1"), blocked)
    assert output.text == "a\n200000\n"


async def test_above_the_memory_limit_the_eater_ends_and_is_told(bash: Bash, processes: Processes) -> None:
    processes.memory_limit = 300 * 2**20
    eat = "python3 -c 'x = bytearray(600 * 2**20); import time; time.sleep(60)'"
    results: dict[str, ToolOutput] = {}

    async def keep(name: str, command: str) -> None:
        results[name] = await bash(command)

    async with anyio.create_task_group() as group:
        group.start_soon(keep, "eater", eat)
        group.start_soon(keep, "modest", "sleep 3; echo fine")
    assert "memory" in results["eater"].text
    raw = results["eater"].raw
    assert raw is not None
    assert raw["killedAtMemory"] > processes.memory_limit
    assert "memory" in raw["error"]
    assert results["eater"].is_error
    assert results["modest"].text == "fine\n"


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_what_no_command_line_can_hold_is_an_error(
    context: Callable[..., ToolContext], command: str
) -> None:
    given = BashInput.model_construct(command=command, timeout=None, run_in_background=False)
    with pytest.raises(ToolError, match="cannot be run"):
        await TOOL.run(given, context())


async def test_a_folder_that_is_gone_is_an_error(bash: Bash, folder: Path) -> None:
    await anyio.Path(folder).rmdir()
    with pytest.raises(ToolError, match="is gone"):
        await bash("true")


async def test_no_zombies_and_no_descriptors_gather(bash: Bash) -> None:
    fds = open_descriptors()
    for _ in range(30):
        await bash("(setsid true &); (sleep 0 &); true | true")
    assert open_descriptors() <= fds + 1
    await until(lambda: all(child.status() != psutil.STATUS_ZOMBIE for child in psutil.Process().children()))


async def test_a_spill_file_is_whole_and_closed_when_its_process_has_ended(
    bash: Bash, context: Callable[..., ToolContext], processes: Processes
) -> None:
    fds = open_descriptors()
    await bash("seq 20000; printf end", run_in_background=True)
    [task] = processes.background.values()
    with anyio.fail_after(10):
        await task.child.gone.wait()
    assert open_descriptors() <= fds
    assert (
        await anyio.Path(task.capture.path).read_text() == "".join(f"{i}\n" for i in range(1, 20001)) + "end"
    )
    shown: list[str] = []
    cancelled = anyio.CancelScope()

    async def run() -> None:
        with cancelled:
            await TOOL.run(BashInput(command="seq 90000; sleep 60"), context("cancelled", shown=shown))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: any("90000\n" in text for text in shown))
        assert open_descriptors() > fds
        cancelled.cancel()
    await processes.settle()
    assert open_descriptors() <= fds


async def test_a_background_task_runs_on_and_can_be_seen_and_stopped(
    bash: Bash, context: Callable[..., ToolContext], processes: Processes
) -> None:
    mark = seconds()
    output = await bash(f"\n\necho up; sleep {mark}", run_in_background=True)
    task_id = output.raw["taskId"]
    await bash("sleep 60 & true")
    assert alive(mark) != []
    assert processes.background_count == 1
    await until(lambda: "up\n" in processes.background[task_id].capture.text())
    seen = await TASK_OUTPUT.run(TaskOutputInput(task_id=task_id), context())
    assert "up\n" in seen.text
    listed = await TASK_LIST.run(TaskListInput(), context())
    assert task_id in listed.text
    assert "running" in listed.text
    assert f": echo up; sleep {mark}" in listed.text
    stopped = await TASK_STOP.run(TaskStopInput(task_id=task_id), context())
    assert "stopped" in stopped.text
    assert "up\n" in stopped.text
    assert alive(mark) == []
    assert processes.background_count == 0


async def test_a_background_task_keeps_what_it_starts_itself(
    bash: Bash, context: Callable[..., ToolContext]
) -> None:
    mark = seconds()
    started = await bash(f"setsid nohup sleep {mark} & echo up", run_in_background=True)
    seen = await TASK_OUTPUT.run(TaskOutputInput(task_id=started.raw["taskId"], wait=0.6), context())
    assert seen.raw["running"] is True
    assert alive(mark) != []
    await TASK_STOP.run(TaskStopInput(task_id=started.raw["taskId"]), context())
    assert alive(mark) == []


async def test_an_ended_background_task_tells_how(bash: Bash, context: Callable[..., ToolContext]) -> None:
    started = await bash("echo bye; exit 4", run_in_background=True)
    seen = await TASK_OUTPUT.run(TaskOutputInput(task_id=started.raw["taskId"], wait=10), context())
    assert "exit 4" in seen.text
    assert "bye\n" in seen.text
    with pytest.raises(ToolError, match="no background task"):
        await TASK_OUTPUT.run(TaskOutputInput(task_id="task-none"), context())


async def test_everything_ends_with_the_worker_within_a_second(bash: Bash, processes: Processes) -> None:
    mark = seconds()
    await bash(f"trap '' TERM; setsid sleep {mark} & sleep {mark}; sleep {mark}", run_in_background=True)
    await bash(f"env -i setsid -f sleep {mark}", run_in_background=True)
    await until(lambda: len(alive(mark)) >= 3)
    started = anyio.current_time()
    await processes.stop_all()
    assert anyio.current_time() - started < 1.5
    assert alive(mark) == []


def test_the_title_is_the_commands_first_line() -> None:
    assert TOOL.title(BashInput(command="ls -l")) == "`ls -l`"
    assert TOOL.title(BashInput(command="a\nb")) == "`a…`"
    assert TOOL.title(BashInput(command="echo `date`")) == "echo `date`"
    assert len(TOOL.title(BashInput(command="x" * 500))) < 130
