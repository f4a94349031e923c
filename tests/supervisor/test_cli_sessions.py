"""`iac-code sessions` against stored sessions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from shared.lines import encode
from shared.lock import SessionLock
from shared.meta import HISTORY, Meta
from shared.records import (
    AssistantRecord,
    Record,
    ToolResultRecord,
    ToolStartRecord,
    TurnEndRecord,
    UserRecord,
)
from shared.store import Store
from supervisor.cli import sessions
from supervisor.cli.failure import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OF_TURN: dict[str, Any] = {"epoch": 1, "time": 1.0, "turn_id": "t1"}
TURN: list[Record] = [
    UserRecord(**OF_TURN, blocks=[{"type": "text", "text": "make it so"}]),
    AssistantRecord(
        **OF_TURN,
        message_id="m1",
        model="offline",
        blocks=[
            {"type": "text", "text": "Making it."},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "make so"}},
        ],
        stop_reason="tool_use",
    ),
    ToolStartRecord(**OF_TURN, call_id="c1", tool="bash"),
    ToolResultRecord(**OF_TURN, call_id="c1", tool="bash", text="no rule", is_error=True),
    TurnEndRecord(**OF_TURN, stop_reason="end_turn"),
]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("IAC_CODE_CONFIG_DIR", str(tmp_path))
    return Store(tmp_path / "sessions")


@pytest.fixture
def stored(store: Store, tmp_path: Path) -> Callable[..., Path]:
    def create(session_id: str, updated: float = 1.0, cwd: Path = tmp_path, title: str | None = None) -> Path:
        meta = Meta(session_id=session_id, cwd=str(cwd), created=1.0, updated=updated, title=title)
        return store.create(meta)

    return create


def test_list_is_newest_first(stored: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(250):
        stored(f"s{number}", updated=1000.0 + number)
    assert sessions.list_sessions(None) == 0
    ids = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert ids == [f"s{number}" for number in reversed(range(250))]


def test_list_keeps_to_a_folder_however_it_is_spelled(
    stored: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "project")
    stored("here", cwd=tmp_path / "project")
    stored("elsewhere")
    sessions.list_sessions(str(tmp_path / "link"))
    out = capsys.readouterr().out
    assert "here" in out
    assert "elsewhere" not in out


def test_a_title_cannot_steer_the_terminal(
    stored: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stored("s1", title="\x1b]0;owned\x07[bold]not markup[/bold]\x9b2J")
    sessions.list_sessions(None)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "[bold]not markup[/bold]" in out


def test_show_tells_the_conversation(stored: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    (stored("s1") / HISTORY).write_bytes(b"".join(map(encode, TURN)))
    assert sessions.show("s1", as_json=False) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line]
    assert shown == ["› make it so", "Making it.", '→ bash {"command": "make so"}', "✗ bash failed"]


def test_show_as_json_gives_every_record(
    stored: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (stored("s1") / HISTORY).write_bytes(b"".join(map(encode, TURN)))
    sessions.show("s1", as_json=True)
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["user", "assistant", "tool_start", "tool_result", "turn_end"]


def test_show_tells_what_cannot_be_read_and_shows_the_rest(
    stored: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    history = stored("s1") / HISTORY
    history.write_bytes(b"garbage\n" + b"".join(map(encode, TURN)))
    before = history.read_bytes()
    assert sessions.show("s1", as_json=False) == 0
    shown = capsys.readouterr()
    assert "make it so" in shown.out
    assert "line 1" in shown.err
    assert history.read_bytes() == before


def test_rm_deletes_one_session(store: Store, stored: Callable[..., Path]) -> None:
    stored("s1")
    stored("s2")
    assert sessions.remove("s1") == 0
    assert [meta.session_id for meta in store.list(None, None)[0]] == ["s2"]


def test_rm_refuses_a_session_that_is_open_and_names_the_process(stored: Callable[..., Path]) -> None:
    folder = stored("s1")
    lock = SessionLock.acquire(folder)
    try:
        pid = int((folder / "lock").read_text())
        with pytest.raises(CommandError, match=str(pid)):
            sessions.remove("s1")
        assert (folder / "meta.json").exists()
    finally:
        lock.release()


@pytest.mark.parametrize("session_id", ["unknown", "", "..", "../sessions", "a/b", "x" * 65, "s1\n", "~"])
def test_an_id_that_names_no_session_is_told_and_touches_nothing(
    stored: Callable[..., Path], session_id: str
) -> None:
    folder = stored("s1")
    with pytest.raises(CommandError, match="no session"):
        sessions.show(session_id, as_json=False)
    with pytest.raises(CommandError, match="no session"):
        sessions.remove(session_id)
    assert folder.exists()
