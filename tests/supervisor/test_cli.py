"""The command itself: what starts lazily, what wrong usage says, and what a failure looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def iac_code(*arguments: str, config: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command, its standard input a pipe with `given`."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "IAC_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "supervisor.cli.main", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=30,
        env=environment | {"IAC_CODE_CONFIG_DIR": str(config)},
        check=False,
    )


def test_acp_starts_without_importing_what_it_does_not_need() -> None:
    program = """
import sys, types
front = types.ModuleType("supervisor.acp")
def start(dialect, greeting):
    print(dialect, *sorted({"argparse", "rich", "pydantic", "anyio"} & set(sys.modules)))
    return 7
front.main = start
sys.modules["supervisor.acp"] = front
sys.argv = ["iac-code", "acp", "--dialect", "acp"]
from supervisor.cli.main import main
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "acp\n", "")


def test_a_bug_is_told_in_one_line_and_recorded_in_the_log(tmp_path: Path) -> None:
    program = """
import sys, types
front = types.ModuleType("supervisor.acp")
def broken(dialect, greeting): raise RuntimeError("no\\nsuch luck")
front.main = broken
sys.modules["supervisor.acp"] = front
sys.argv = ["iac-code", "acp"]
from supervisor.cli.main import main
sys.exit(main())
"""
    environment = os.environ | {"IAC_CODE_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "RuntimeError: no such luck" in done.stderr
    entry = json.loads((tmp_path / "logs" / "iac-code.jsonl").read_text())
    assert "RuntimeError" in entry["traceback"]


def test_settings_that_cannot_be_used_are_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"recover": "maybe"}')
    done = iac_code("models", config=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "settings.json" in done.stderr
    assert "recover" in done.stderr


def test_help_names_every_command(tmp_path: Path) -> None:
    done = iac_code("--help", config=tmp_path)
    assert done.returncode == 0
    for command in ("acp", "ask", "chat", "sessions", "ps", "logs", "models", "login", "logout"):
        assert f"\n    {command} " in done.stdout


def test_help_of_acp_is_help_and_not_a_start(tmp_path: Path) -> None:
    done = iac_code("acp", "--help", config=tmp_path)
    assert done.returncode == 0
    assert "--dialect" in done.stdout


def test_wrong_usage_ends_with_1_since_2_means_refused(tmp_path: Path) -> None:
    for arguments in ((), ("fly",), ("ask", "--no-such-option", "x"), ("sessions",)):
        done = iac_code(*arguments, config=tmp_path)
        assert (done.returncode, done.stdout) == (1, ""), arguments
        assert "usage: iac-code" in done.stderr


def test_ask_without_a_prompt_says_so(tmp_path: Path) -> None:
    done = iac_code("ask", config=tmp_path, given="  \n")
    assert done.returncode == 1
    assert "no prompt" in done.stderr


def test_chat_without_a_terminal_is_refused(tmp_path: Path) -> None:
    done = iac_code("chat", config=tmp_path)
    assert done.returncode == 1
    assert "terminal" in done.stderr


def test_a_reader_that_goes_away_is_no_error_message(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "iac-code.jsonl"
    log.parent.mkdir()
    log.write_text("a stray line\n" * 50_000)
    with subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli.main", "logs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"IAC_CODE_CONFIG_DIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"a stray line\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_login_stores_a_key_for_its_user_alone_and_logout_forgets_it(tmp_path: Path) -> None:
    stored = tmp_path / "config" / "credentials.json"
    assert iac_code("login", config=stored.parent, given="sk-test-1\n").returncode == 0
    assert json.loads(stored.read_text())["api_key"] == "sk-test-1"
    assert stored.stat().st_mode & 0o777 == 0o600
    assert iac_code("logout", config=stored.parent).returncode == 0
    assert not stored.exists()
    assert iac_code("logout", config=stored.parent).returncode == 0


def test_login_refuses_what_is_no_key_without_repeating_it(tmp_path: Path) -> None:
    for given in ("\n", "sk-ключ\n", "two words\n"):
        done = iac_code("login", config=tmp_path, given=given)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert given.strip() == "" or given.strip() not in done.stderr + done.stdout
        assert not (tmp_path / "credentials.json").exists()


def test_models_marks_what_a_new_session_takes(tmp_path: Path) -> None:
    done = iac_code("models", config=tmp_path)
    (marked,) = [line for line in done.stdout.splitlines() if line.startswith("*  ")]
    assert marked.split()[1] == "offline"
    iac_code("login", config=tmp_path, given="sk-test-1\n")
    done = iac_code("models", config=tmp_path)
    (marked,) = [line for line in done.stdout.splitlines() if line.startswith("*  ")]
    assert marked.split()[1] != "offline"
