"""`iac-code ask` and `chat` as people and scripts use them, with the real agent and the offline model."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.client import offline_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

IAC_CODE = [sys.executable, "-P", "-m", "supervisor.cli.main"]
PATIENCE = 20.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    # Where only the dependencies are installed, the program is found here.
    here = {"PYTHONPATH": str(Path(__file__).parents[2])}
    return offline_environment(tmp_path / "home") | here | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    # What a project may hold must not become part of the program that is started in it.
    (folder / "supervisor").mkdir()
    (folder / "supervisor" / "__init__.py").write_text("raise SystemExit('the project was imported')")
    return folder


def ask(
    *arguments: str, project: Path, environment: dict[str, str], given: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*IAC_CODE, "ask", *arguments],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=project,
        env=environment,
        check=False,
    )


def test_the_answer_is_what_stdout_holds(project: Path, environment: dict[str, str]) -> None:
    done = ask("say hello", project=project, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


def test_a_prompt_may_come_from_a_pipe_and_then_nobody_can_permit(
    project: Path, environment: dict[str, str]
) -> None:
    done = ask(project=project, environment=environment, given="say hello\nrun touch made\n")
    assert not (project / "made").exists()
    assert "hello" in done.stdout
    assert "✗" in done.stdout
    assert "Permission denied" in done.stdout


def test_yes_allows_and_edits_show_their_diff(project: Path, environment: dict[str, str]) -> None:
    (project / "main.tf").write_text("a = 1\n")
    done = ask("--yes", "replace a = 1 with a = 2 in main.tf", project=project, environment=environment)
    assert done.returncode == 0
    assert (project / "main.tf").read_text() == "a = 2\n"
    assert "\n-a = 1\n+a = 2\n" in done.stdout


def test_json_is_the_updates_one_a_line_and_the_session_goes_on_from_any_folder_in_its_own(
    project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    done = ask("--json", "say hello", project=project, environment=environment)
    updates = [json.loads(line) for line in done.stdout.splitlines()]
    (session_id,) = {update["sessionId"] for update in updates}
    text = [
        u["update"]["content"]["text"]
        for u in updates
        if u["update"]["sessionUpdate"] == "agent_message_chunk"
    ]
    assert "".join(text) == "hello"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    arguments = ("--json", "--session", session_id, "--yes", "run pwd")
    again = ask(*arguments, project=elsewhere, environment=environment)
    assert again.returncode == 0
    assert {json.loads(line)["sessionId"] for line in again.stdout.splitlines()} == {session_id}
    assert f"{project.resolve()}\\n" in again.stdout
    history = project.parent / "home" / "config" / "sessions" / session_id / "history.jsonl"
    assert history.read_text().count('"kind":"turn_end"') == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--session", "nope"), "nope"),
        (("--session", "../x"), "../x"),
        (("--model", "no/such"), "no/such"),
        (("--mode", "reckless"), "reckless"),
        (("--cwd", "/no/such/folder"), "/no/such/folder"),
    ],
)
def test_what_cannot_be_chosen_is_one_line_and_1(
    project: Path, environment: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    done = ask(*arguments, "say hello", project=project, environment=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_ctrl_c_cancels_and_the_exit_code_tells(project: Path, environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*IAC_CODE, "ask", "count to 300 slowly"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"1"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"300" not in out
    assert b"Cancelled" in err


class Terminal:
    """A program on a pseudo-terminal: what it shows, and a keyboard."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.shown = ""

    def wait(self, pattern: str) -> None:
        """Until what was shown since the last wait matches; fails after PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.shown)):
            readable, _, _ = select.select([self._fd], [], [], max(deadline - time.monotonic(), 0))
            assert readable, f"{pattern!r} was not shown; this was: {self.shown[-500:]!r}"
            self.shown = _CONTROL.sub("", self.shown + os.read(self._fd, 65536).decode(errors="replace"))
        self.shown = self.shown[found.end() :]

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())


@contextmanager
def terminal(
    *arguments: str, project: Path, environment: dict[str, str]
) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*IAC_CODE, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=project,
        env=environment | {"COLUMNS": "100", "LINES": "30"},
        start_new_session=True,
        # Only a controlling terminal turns ^C into a signal.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield Terminal(ours), process
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_at_a_terminal_the_person_is_asked(project: Path, environment: dict[str, str]) -> None:
    arguments = ("ask", "run touch first\nrun touch second")
    with terminal(*arguments, project=project, environment=environment) as (screen, process):
        screen.wait(r"touch first.*never\]:")
        screen.type("maybe\r")
        screen.wait(r"touch first.*never\]:")
        screen.type("y\r")
        screen.wait(r"touch second.*never\]:")
        assert (project / "first").exists()
        screen.type("n\r")
        screen.wait("--session ")
    assert process.returncode == 0
    assert not (project / "second").exists()


def test_ctrl_c_at_the_question_cancels_the_turn(project: Path, environment: dict[str, str]) -> None:
    with terminal("ask", "run touch made", project=project, environment=environment) as (screen, process):
        screen.wait(r"never\]:")
        screen.type("\x03")
        screen.wait("Cancelled")
    assert process.returncode == 130
    assert not (project / "made").exists()


def test_a_chat_keeps_its_session_and_starts_new_ones(project: Path, environment: dict[str, str]) -> None:
    with terminal("chat", project=project, environment=environment) as (screen, process):
        screen.wait("Session .*\n")
        screen.wait("›")
        screen.type("say hel\\lo\r")
        screen.wait(r"\n.*hel\\lo")
        screen.type("count to 300 slowly\r")
        screen.wait("1 2 3")
        screen.type("\x03")
        screen.wait("cancelled")
        screen.type("/new\r")
        screen.wait(r"Session [\w-]+\.")
        screen.type("/quit\r")
        process.wait(PATIENCE)
    assert process.returncode == 0
    home = project.parent / "home" / "config"
    assert len([folder for folder in (home / "sessions").iterdir() if not folder.name.startswith(".")]) == 2
    assert (home / "chat_history").stat().st_mode & 0o777 == 0o600
