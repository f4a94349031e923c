"""One line of JSON for whatever is logged, in one private file for all processes; nothing ends who logs."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shared import logs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.may_leak  # the thread that writes the log lives as long as its process


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """The log, open; the process's own logging is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    fd = logs.open_log(tmp_path / "config" / "logs")
    logs.start(fd, "front", "s1")
    yield fd
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    os.close(fd)


@pytest.fixture
def log() -> logging.Logger:
    return logging.getLogger("test")


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    for handler in logging.getLogger().handlers:
        handler.flush()
    *written, last = (tmp_path / "config" / "logs" / logs.FILE_NAME).read_text().split("\n")
    assert last == ""
    return [json.loads(line) for line in written]


def test_a_record_is_a_line_that_says_when_who_and_what(fd: int, tmp_path: Path, log: logging.Logger) -> None:
    log.info("worker %d ended", 7, extra={"fields": {"reason": "killed", "epoch": 2}})
    (line,) = lines(tmp_path)
    assert line.pop("time")[-1] == "Z"
    assert line == {
        "level": "info",
        "process": "front",
        "session": "s1",
        "pid": os.getpid(),
        "message": "worker 7 ended",
        "reason": "killed",
        "epoch": 2,
    }


def test_an_exception_is_one_line_with_its_traceback(fd: int, tmp_path: Path, log: logging.Logger) -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        log.exception("it failed")
    (line,) = lines(tmp_path)
    assert "RuntimeError: boom" in line["traceback"]


@pytest.mark.parametrize(
    "value",
    ["\ud800", os.fsdecode(b"/tmp/\xff"), Path(os.fsdecode(b"/\xff")), object(), {1: {2}}, b"\xff", 1j],
)
def test_whatever_is_logged_is_a_line(fd: int, tmp_path: Path, log: logging.Logger, value: Any) -> None:
    log.warning("it was %s", value, extra={"fields": {"value": value, "list": [value]}})
    log.warning("next")
    assert [line["level"] for line in lines(tmp_path)] == ["warning", "warning"]


def test_lines_within_a_message_do_not_make_lines_of_the_log(
    fd: int, tmp_path: Path, log: logging.Logger
) -> None:
    log.info("one\ntwo\r\nthree\u2028four")
    assert lines(tmp_path)[0]["message"] == "one\ntwo\r\nthree\u2028four"


def test_a_full_disk_does_not_end_who_logs(fd: int, log: logging.Logger) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    logs.start(full, "front")
    log.error("lost")
    for handler in logging.getLogger().handlers:
        handler.flush()
    os.close(full)


def test_warnings_are_logged_and_the_requests_of_the_http_client_are_not(fd: int, tmp_path: Path) -> None:
    for name in ("httpx", "httpx2", "httpcore", "anthropic"):
        logging.getLogger(name).info("GET http://host/secret")
    logging.getLogger("chatty").debug("detail")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    found = lines(tmp_path)
    assert len(found) == 1
    assert "DeprecationWarning: old" in found[0]["message"]


def test_the_log_and_all_folders_above_it_are_private(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        os.close(logs.open_log(tmp_path / "config" / "logs"))
    finally:
        os.umask(mask)
    for folder in (tmp_path / "config", tmp_path / "config" / "logs"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    file = tmp_path / "config" / "logs" / logs.FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_log_is_appended_to_and_kept_from_children(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        fd = logs.open_log(tmp_path)
        assert not os.get_inheritable(fd)
        os.write(fd, text)
        os.close(fd)
    assert (tmp_path / logs.FILE_NAME).read_bytes() == b"one\ntwo\n"


def test_a_log_that_has_grown_is_rotated_and_the_oldest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_ROTATE_AT", 3)
    for number in range(8):
        fd = logs.open_log(tmp_path)
        os.write(fd, b"run %d" % number)
        os.close(fd)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {
        logs.FILE_NAME: "run 7",
        **{f"{logs.FILE_NAME}.{n}": f"run {7 - n}" for n in range(1, 5)},
    }


def test_processes_that_share_the_log_do_not_mix_their_lines(tmp_path: Path) -> None:
    script = (
        "import logging, pathlib, sys\n"
        "from shared import logs\n"
        "logs.start(logs.open_log(pathlib.Path(sys.argv[1])), 'worker', sys.argv[2])\n"
        "for n in range(200):\n"
        "    logging.info('%d %s', n, 'x' * (n * 37 % 3000))\n"
        "logging.getLogger().handlers[0].flush()\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(number)]) for number in range(3)
    ]
    assert [process.wait(50) for process in started] == [0, 0, 0]
    found = [json.loads(line) for line in (tmp_path / logs.FILE_NAME).read_text().splitlines()]
    for session in ("0", "1", "2"):
        numbers = [int(line["message"].split()[0]) for line in found if line["session"] == session]
        assert numbers == list(range(200))
