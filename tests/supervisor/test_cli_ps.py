"""`iac-code ps` against real sockets of fronts that answer, hang, lie or are gone."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from supervisor.cli import ps

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION = {
    "sessionId": "s1",
    "state": "running",
    "pid": 12,
    "epoch": 3,
    "restarts": 2,
    "lastDeath": "signal 9",
    "uss": 5 * 2**20,
    "cpu": 12.4,
    "cwd": "/somewhere",
    "title": "[red]a\x1b[31m title",
    "background": 1,
}
FRONT = {
    "pid": 11,
    "started": 0.0,
    "version": "0.1.0",
    "connections": 1,
    "zygote": {"pid": 10},
    "sessions": [SESSION],
}


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(ps, "_ANSWER_WITHIN", 0.5)
    # Not tmp_path: with a socket's name it is longer than what a socket's path may be.
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr("shared.paths.runtime_root", lambda: Path(folder))
        yield Path(folder)


@contextmanager
def front(folder: Path, answer: bytes | None) -> Iterator[None]:
    """A front that says `answer` to whoever connects; None: it never answers."""
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(folder / ps.SOCKET_NAME))
        listening.listen()
        thread = threading.Thread(target=_serve, args=(listening, answer))
        if answer is not None:
            thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            if answer is not None:
                thread.join()


def _serve(listening: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            assert connection.recv(1000) == b"{}\n"
            connection.sendall(answer)


def run_json(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert ps.run(as_json=True) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_all_fronts_are_listed_and_stale_folders_skipped(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "empty").mkdir()
    (root / "a file").write_text("")
    with front(root / "gone", b""):
        pass
    with (
        front(root / "one", json.dumps(FRONT).encode()),
        front(root / "two", json.dumps({**FRONT, "pid": 2}).encode()),
    ):
        assert [answer["pid"] for answer in run_json(capsys)] == [11, 2]


@pytest.mark.parametrize("answer", [b"", b"{", b"[]", b"null", b'{"pid": ', b"\xff"])
def test_a_front_that_ends_while_it_answers_is_left_out(
    root: Path, capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    with front(root / "broken", answer):
        assert run_json(capsys) == []


def test_a_front_that_hangs_is_named_and_does_not_hide_the_others(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with front(root / "a-hung", None), front(root / "b-well", json.dumps(FRONT).encode()):
        assert ps.run(as_json=True) == 0
    told = capsys.readouterr()
    assert [answer["pid"] for answer in json.loads(told.out)] == [11]
    assert "a-hung" in told.err


def test_the_table_shows_each_session(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {"sessionId": "s2", "state": "none"}
    with front(root / "one", json.dumps({**FRONT, "sessions": [SESSION, bare]}).encode()):
        assert ps.run(as_json=False) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    for word in (
        "agent 11",
        "s1",
        "running",
        "5.0",
        "12.4",
        "[red]a[31m title",
        "/somewhere",
        "signal 9",
        "s2",
    ):
        assert word in out


def test_nothing_running_is_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ps.run(as_json=False) == 0
    assert capsys.readouterr().out == "Nothing is running.\n"
    assert run_json(capsys) == []


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(5, "5 s"), (65, "1 min 5 s"), (7300, "2 h 1 min"), (200_000, "2 d 7 h"), (-50, "0 s")],
)
def test_age_names_the_two_largest_units(monkeypatch: pytest.MonkeyPatch, seconds: float, said: str) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    assert ps.age(1_000_000.0 - seconds) == said
