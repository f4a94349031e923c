"""`iac-code logs` over real files: order, rotation, filters, lines that are no records."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from shared import logs as log_files
from supervisor.cli import logs
from supervisor.cli.failure import CommandError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IAC_CODE_CONFIG_DIR", str(tmp_path))
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def entry(message: str, **fields: object) -> str:
    fixed = {"time": "2026-01-01T00:00:00.000Z", "level": "info", "process": "worker", "pid": 7}
    return json.dumps({**fixed, "message": message, **fields}) + "\n"


def test_rotated_files_come_first_the_oldest_before_all(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "iac-code.jsonl").write_text(entry("third"))
    (folder / "iac-code.jsonl.1").write_text(entry("second"))
    (folder / "iac-code.jsonl.10").write_text(entry("first"))
    assert logs.run(None, follow=False) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["first", "second", "third"]


def test_a_line_tells_who_and_what(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "iac-code.jsonl").write_text(
        entry("died", session="s1", level="error", signal=9, traceback="T\nU")
    )
    logs.run(None, follow=False)
    assert capsys.readouterr().out == "2026-01-01T00:00:00.000Z error    worker 7 s1: died signal=9\nT\nU\n"


def test_what_is_no_record_is_shown_as_it_is_but_harmless(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stray = b'Fatal Python error: [x]\n[1, 2]\n"text"\n{}\n\xff\xfe\n\x1b[2Jgone\n' + b"a" * 500 + b"\n"
    (folder / "iac-code.jsonl").write_bytes(stray)
    logs.run(None, follow=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["Fatal Python error: [x]", "[1, 2]", '"text"', "{}", "��", "[2Jgone", "a" * 500]


def test_a_session_is_filtered_out_of_the_rest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = entry("ours", session="s1") + entry("other", session="s10") + entry("front") + "stray s1\n"
    (folder / "iac-code.jsonl").write_text(lines)
    logs.run("s1", follow=False)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["ours"]


def test_without_a_log_it_says_so(folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(CommandError, match="Nothing was logged"):
        logs.run(None, follow=False)


def test_following_goes_on_over_a_rotation(folder: Path) -> None:
    current = folder / log_files.FILE_NAME
    current.write_text(entry("before"))
    with subprocess.Popen(
        [sys.executable, "-m", "supervisor.cli.main", "logs", "--follow"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("before\n")
        with current.open("a") as file:
            file.write(entry("old file"))
            file.flush()
            current.rename(folder / "iac-code.jsonl.1")
            file.write(entry("old file, rotated"))
        current.write_text(entry("new file"))
        told = [process.stdout.readline().partition(": ")[2] for _ in range(3)]
        process.terminate()
    assert told == ["old file\n", "old file, rotated\n", "new file\n"]


def test_it_reads_what_the_program_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.Logger("test")
    fd = log_files.open_log(folder)
    handler = log_files.JsonLines(fd, "front")
    logger.addHandler(handler)
    logger.warning("worker %d ended", 5, extra={"fields": {"session": "s1", "signal": 9}})
    handler.close()
    os.close(fd)
    logs.run("s1", follow=False)
    assert capsys.readouterr().out.partition(" warning")[2].endswith("worker 5 ended signal=9\n")
