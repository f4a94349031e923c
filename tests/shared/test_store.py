"""Sessions are on disk when they are said to be, whole, and found again."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shared.faults import injector
from shared.journal import Journal, read
from shared.lines import encode
from shared.meta import FORMAT_VERSION, Meta
from shared.records import ToolResultRecord
from shared.repair import repair
from shared.store import NewerFormat, SessionNotFound, Store
from tests.shared.histories import (
    call,
    end,
    grant,
    reply,
    result,
    start,
    text,
    thinking,
    user,
    whole_turn,
)

if TYPE_CHECKING:
    from shared.records import Record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "config" / "sessions")


def meta(session_id: str, updated: float = 1_700_000_000.0, cwd: str = "/w", **fields: Any) -> Meta:
    return Meta(session_id=session_id, cwd=cwd, created=1_600_000_000.25, updated=updated, **fields)


def full_meta() -> Meta:
    return meta(
        "s1",
        title="Fix the ünit \U0001f600",
        options={"mode": "default", "model": "m", "thinking": "off"},
        directories=["/a", "/b"],
        parent="s0",
        closed=True,
        epoch=3,
    )


def all_pages(store: Store, cwd: str | None = None, limit: int = 50) -> list[str]:
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = store.list(cwd, cursor, limit)
        assert 0 < len(page) <= limit or (not page and cursor is None)
        ids += [one.session_id for one in page]
        if cursor is None:
            return ids


def test_a_session_that_was_created_is_there_and_private(store: Store) -> None:
    folder = store.create(full_meta())
    assert store.folder("s1") == folder
    assert Store(folder.parent).meta("s1") == full_meta()
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in folder.iterdir()}
    assert modes == {"history.jsonl": 0o600, "lock": 0o600, "meta.json": 0o600}
    for made in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert read(folder / "history.jsonl") == ([], [], 0)


@pytest.mark.parametrize(
    "session_id", ["", "..", "../..", "a/b", "a\0b", "s1\n", "x" * 65, "é", ".new-s1", "nobody", "file"]
)
def test_an_id_that_names_no_session_is_not_found(store: Store, session_id: str) -> None:
    folder = store.create(meta("s1"))
    (folder.parent / "file").touch()
    (folder.parent / "empty").mkdir()
    for ask in (store.meta, lambda one: store.fork(one, meta("s2"))):
        with pytest.raises(SessionNotFound):
            ask(session_id)
    with pytest.raises(SessionNotFound):
        store.meta("empty")
    store.delete(session_id)
    assert all_pages(store) == ["s1"]
    if session_id not in ("nobody", "file"):
        with pytest.raises(SessionNotFound):
            store.create(meta(session_id))
    with pytest.raises(SessionNotFound):
        store.write_meta(meta(session_id))


def test_a_session_is_not_created_over_another(store: Store) -> None:
    store.create(full_meta())
    with pytest.raises(OSError, match="not empty"):
        store.create(meta("s1"))
    assert store.meta("s1") == full_meta()
    assert len(list(store.folder("s1").parent.iterdir())) == 1


def test_meta_is_replaced_as_a_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create(full_meta())
    for point in ("meta.write", "meta.written"):
        monkeypatch.setattr("shared.durable.fault_point", injector(f"enospc@{point}"))
        with pytest.raises(OSError, match="No space"):
            store.write_meta(meta("s1", title="new"))
        assert store.meta("s1") == full_meta()
    store.write_meta(meta("s1", title="new"))
    assert store.meta("s1").title == "new"
    assert sorted(entry.name for entry in store.folder("s1").iterdir()) == [
        "history.jsonl",
        "lock",
        "meta.json",
    ]


@pytest.mark.parametrize("point", ["history.write", "lock.write", "meta.write", "meta.written"])
def test_a_session_that_the_disk_does_not_take_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr("shared.durable.fault_point", injector(f"enospc@{point}"))
    with pytest.raises(OSError, match="No space"):
        store.create(meta("s1"))
    assert list(store.folder("s1").parent.iterdir()) == []
    store.create(meta("s1"))
    assert all_pages(store) == ["s1"]


@pytest.mark.parametrize("point", ["history.written", "meta.write", "meta.written"])
def test_a_kill_while_creating_leaves_no_half_session(store: Store, point: str) -> None:
    root = store.folder("s1").parent
    code = (
        "import pathlib, sys; from shared.store import Store; from shared.meta import Meta\n"
        "Store(pathlib.Path(sys.argv[1])).create(Meta.model_validate_json(sys.argv[2]))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "IAC_CODE_FAULTS": f"kill@{point}",
    }
    command = [sys.executable, "-c", code, str(root), meta("s1").model_dump_json()]
    assert subprocess.run(command, env=environment, timeout=30, check=False).returncode == -signal.SIGKILL
    assert store.list(None, None) == ([], None)
    with pytest.raises(SessionNotFound):
        store.meta("s1")
    (half,) = root.iterdir()
    store.create(meta("s2"))
    store.create(meta("s3"))
    store.delete("s3")
    assert half.exists(), "it may be another process's that is at it"
    os.utime(half, (time.time() - 7200,) * 2)
    store.delete("s2")
    assert list(root.iterdir()) == []


BROKEN = {
    "missing": None,
    "empty": b"",
    "NULs": b"\0" * 300,
    "garbage": b"\xff\xfe{{{",
    "a list": b"[1, 2]",
    "torn": full_meta().encode()[:-40],
    "torn early": full_meta().encode()[:40],
    "wrong types": full_meta()
    .encode()
    .replace(b'"closed":true', b'"closed":{}')
    .replace(b'["/a","/b"]', b"7"),
    "missing field": full_meta().encode().replace(b'"updated"', b'"xupdated"'),
    "no number": full_meta().encode().replace(b"1700000000.0", b"NaN"),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_meta_does_not_lose_the_session(store: Store, content: bytes | None) -> None:
    path = store.create(full_meta()) / "meta.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    found = store.meta("s1")
    assert found.session_id == "s1"
    assert found.updated > 0
    readable = content is not None and b'"cwd":"/w"' in content
    assert found.cwd == "/w" if readable else not Path(found.cwd).exists()
    if content is not None and b'"title":"Fix' in content:
        assert found.title == full_meta().title
    assert all_pages(store) == ["s1"]
    store.write_meta(found)
    assert Meta.model_validate_json(path.read_bytes()) == found


def test_a_folder_that_was_copied_is_a_session_of_its_own(store: Store) -> None:
    folder = store.create(full_meta())
    folder.rename(folder.with_name("copy"))
    assert store.meta("copy") == full_meta().model_copy(update={"session_id": "copy"})


def test_a_session_of_a_newer_version_is_refused_with_a_sentence_and_listed(store: Store) -> None:
    folder = store.create(meta("s1", version=FORMAT_VERSION + 1))
    for ask in (store.meta, lambda one: store.fork(one, meta("s2"))):
        with pytest.raises(NewerFormat, match=r"newer iac-code.*update"):
            ask("s1")
    changed = {**json.loads((folder / "meta.json").read_text()), "cwd": ["other", "shape"], "more": 1}
    (folder / "meta.json").write_text(json.dumps(changed))
    with pytest.raises(NewerFormat):
        store.meta("s1")
    assert all_pages(store) == ["s1"]


def test_an_older_meta_with_fewer_fields_opens(store: Store) -> None:
    folder = store.create(meta("s1"))
    (folder / "meta.json").write_text(
        '{"version":1,"session_id":"s1","cwd":"/w","created":1,"updated":2,"gone":3}'
    )
    assert store.meta("s1") == Meta(session_id="s1", cwd="/w", created=1, updated=2)


def test_lists_are_in_pages_last_updated_first(store: Store) -> None:
    for n in (3, 1, 4, 0, 2):
        store.create(meta(f"s{n}", updated=1_700_000_000 + n))
    assert all_pages(store, limit=2) == ["s4", "s3", "s2", "s1", "s0"]
    store.write_meta(meta("s1", updated=1_700_000_009.5, title="again"))
    page, cursor = store.list(None, None, 2)
    assert [(one.session_id, one.title) for one in page] == [("s1", "again"), ("s4", None)]
    store.create(meta("s9", updated=1_800_000_000))
    store.delete("s4")
    page, cursor = store.list(None, cursor, 2)
    assert [one.session_id for one in page] == ["s3", "s2"]
    assert [one.session_id for one in store.list(None, cursor, 2)[0]] == ["s0"]
    assert all_pages(store, limit=5) == all_pages(store, limit=1)


def test_sessions_of_one_moment_are_all_listed(store: Store) -> None:
    for n in range(7):
        store.create(meta(f"s{n}"))
    assert sorted(all_pages(store, limit=3)) == [f"s{n}" for n in range(7)]


def test_a_list_of_nothing_is_empty(store: Store) -> None:
    assert store.list(None, None) == ([], None)
    assert store.list("/w", None) == ([], None)


@pytest.mark.parametrize("cursor", ["", "!", "bm9uZQ==", "MS4uLg", "é", "a" * 10_000, "LTEucyE="])
def test_a_cursor_that_is_none_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(ValueError, match="no cursor"):
        store.list(None, cursor)


def test_lists_are_filtered_by_resolved_folder(store: Store, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for n in range(3):
        store.create(meta(f"in{n}", cwd=str(tmp_path / "real"), updated=1_700_000_000 - n))
        store.create(meta(f"out{n}", cwd="/other", updated=1_700_000_000 - n))
    for cwd in (tmp_path / "link", tmp_path / "real" / ".." / "real"):
        assert all_pages(store, str(cwd), limit=2) == ["in0", "in1", "in2"]
    assert store.list(str(tmp_path), None) == ([], None)
    store.write_meta(meta("out1", cwd=str(tmp_path / "real"), updated=1_700_000_000 - 1))
    store.write_meta(meta("in2", cwd="/other", updated=1_700_000_000 - 2))
    assert all_pages(store, str(tmp_path / "real")) == ["in0", "in1", "out1"]


def test_broken_folders_do_not_keep_others_from_being_listed(store: Store) -> None:
    root = store.create(meta("s1")).parent
    (root / "empty").mkdir()
    (root / "file").touch()
    (root / "dangling").symlink_to(root / "nothing")
    (root / "odd" / "meta.json").mkdir(parents=True)
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "meta.json")
    (root / "strange name").mkdir()
    (root / "only-meta").mkdir()
    (root / "only-meta" / "meta.json").write_text("garbage")
    (root / "unreadable").mkdir()
    (root / "unreadable" / "history.jsonl").mkdir()
    assert "s1" in all_pages(store)
    assert not {"empty", "file", "dangling", "odd", "only-meta"} & set(all_pages(store, limit=1))
    assert all_pages(store, "/w") == ["s1"]


def test_a_fork_has_all_finished_turns_and_nothing_else(store: Store) -> None:
    done: list[Record] = [*whole_turn("t1", "c1"), *whole_turn("t2", "c2")]
    begun: list[Record] = [
        user("t3"),
        reply("t3", call("c3"), call("c4")),
        start("t3", "c3"),
        result("t3", "c3"),
    ]
    source = store.create(full_meta())
    Journal(source / "history.jsonl").append([done[0], grant(), *done[1:], grant(), *begun])
    with (source / "history.jsonl").open("ab") as file:
        file.write(b'{"epoch":0,"ti')
    before = (source / "history.jsonl").read_bytes()

    fork = store.fork("s1", meta("s2", cwd="/elsewhere", parent="s1"))
    assert store.meta("s2").parent == "s1"
    assert read(fork / "history.jsonl") == (done, [], len(b"".join(map(encode, done))))
    assert repair(done, epoch=0, now=0.0) == done
    assert (source / "history.jsonl").read_bytes() == before
    assert stat.S_IMODE((fork / "history.jsonl").stat().st_mode) == 0o600
    store.delete("s1")
    assert read(fork / "history.jsonl")[0] == done


def test_a_fork_has_the_long_outputs_that_its_results_name(store: Store) -> None:
    source = store.create(full_meta())
    (source / "spill").mkdir()
    (source / "spill" / "c1.txt").write_text("all of it")
    thought = thinking(f"see {source}/spill/c1.txt")
    records: list[Record] = [
        user("t1"),
        reply("t1", thought, call("c1")),
        result("t1", "c1", f"the whole output is in {source}/spill/c1.txt"),
        reply("t1", text("done")),
        end("t1"),
    ]
    Journal(source / "history.jsonl").append(records)
    fork = store.fork("s1", meta("s2"))
    store.delete("s1")
    _, replied, told, *_ = read(fork / "history.jsonl")[0]
    assert isinstance(told, ToolResultRecord)
    assert told.text == f"the whole output is in {fork}/spill/c1.txt"
    assert (fork / "spill" / "c1.txt").read_text() == "all of it"
    assert replied == records[1]


def test_a_fork_in_the_first_turn_or_without_history_is_empty(store: Store) -> None:
    source = store.create(full_meta())
    Journal(source / "history.jsonl").append([user("t1")])
    assert read(store.fork("s1", meta("s2")) / "history.jsonl") == ([], [], 0)
    (source / "history.jsonl").unlink()
    assert read(store.fork("s1", meta("s3")) / "history.jsonl") == ([], [], 0)


def test_deleted_is_gone(store: Store) -> None:
    folder = store.create(full_meta())
    (folder / "spill").mkdir()
    (folder / "spill" / "out.txt").write_text("secret")
    left = folder.with_name(".deleted-s0-1234")
    left.mkdir()
    store.delete("s1")
    with pytest.raises(SessionNotFound):
        store.meta("s1")
    assert list(folder.parent.iterdir()) == []
    store.delete("s1")


def test_many_sessions_are_listed_in_pages(store: Store) -> None:
    root = store.create(meta("first", updated=1_800_000_000)).parent
    for n in range(300):
        one = meta(f"s{n}", cwd=f"/w/{n % 100}", updated=1_700_000_000 + n)
        (root / one.session_id).mkdir()
        for name, content in (("meta.json", one.encode()), ("history.jsonl", b""), ("lock", b"")):
            fd = os.open(f"{root}/{one.session_id}/{name}", os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(fd, content)
            os.utime(fd, (one.updated, one.updated))
            os.close(fd)

    def listed(cwd: str | None, cursor: str | None) -> tuple[list[str], str | None]:
        page, following = store.list(cwd, cursor)
        return [one.session_id for one in page], following

    ids, cursor = listed(None, None)
    assert ids == ["first", *(f"s{n}" for n in range(299, 250, -1))]
    assert listed(None, cursor)[0][0] == "s250"
    assert listed("/w/7", None)[0][:2] == ["s207", "s107"]
    assert listed("/w/none", None) == ([], None)
