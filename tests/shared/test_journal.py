"""What is acknowledged is in the history, and what is in the history is read, whatever is around it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shared import journal as journal_module
from shared.faults import injector
from shared.journal import SET_ASIDE, Journal, read
from shared.lines import encode, finished_turns
from tests.shared.histories import call, end, grant, reply, result, text, user, whole_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.records import Record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_what_was_appended_loads_the_same(path: Path) -> None:
    records = [*whole_turn("t1", "c1"), *whole_turn("t2")]
    journal = Journal(path)
    journal.append(records[:3])
    journal.append(records[3:])
    journal.close()
    assert Journal(path).load() == (records, [])
    assert read(path) == (records, [], path.stat().st_size)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_history_is_told_and_begins_anew(path: Path) -> None:
    journal = Journal(path)
    records, problems = journal.load()
    assert records == []
    assert "missing" in problems[0].reason
    one = user("t1")
    journal.append([one])
    assert read(path)[0] == [one]


def test_a_history_that_cannot_be_read_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = user("t1")
    path.write_bytes(encode(one))
    monkeypatch.setattr(journal_module, "fault_point", injector("eio@journal.read"))
    journal = Journal(path)
    with pytest.raises(OSError, match="Input/output"):
        journal.load()
    assert journal.load() == ([one], [])


@pytest.mark.timeout(10)
@pytest.mark.parametrize("odd", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_an_error_at_once_and_nothing_is_waited_for(
    path: Path, odd: Callable[[Path], None]
) -> None:
    odd(path)
    with pytest.raises(OSError, match="no regular file"):
        Journal(path).load()
    with pytest.raises(OSError, match=r"no regular file|Is a directory"):
        Journal(path).append([user("t1")])


BAD_LINES = {
    "NULs": b"\0" * 4096,
    "garbage": bytes(range(128, 256)).replace(b"\n", b""),
    "half a character": b'{"epoch":0,"time":1,"kind":"user","turn_id":"t","blocks":[{"text":"\xc3"}]}',
    "half a record": b'{"epoch":0,"time":1,"kind":"user","turn_',
    "unknown kind": b'{"epoch":0,"time":1,"kind":"telepathy","turn_id":"t"}',
    "no object": b"[]",
    "a number": b"1e5",
    "deep nesting": b"[" * 100_000,
    "deep nesting in a record": b'{"epoch":0,"time":1,"kind":"user","turn_id":"t","blocks":['
    + b'{"a":' * 5000,
    "huge integer": b'{"epoch":' + b"9" * 10_000 + b',"time":1,"kind":"clear"}',
    "missing field": b'{"epoch":0,"time":1,"kind":"user","turn_id":"t"}',
    "wrong type": b'{"epoch":0,"time":1,"kind":"user","turn_id":7,"blocks":{}}',
    "time that is none": b'{"epoch":0,"time":NaN,"kind":"clear"}',
    "time beyond": b'{"epoch":0,"time":1e999,"kind":"clear"}',
    "byte order mark": b"\xef\xbb\xbf",
    "escape": b'{"epoch":0,"time":1,"kind":"user","turn_id":"\\x","blocks":[]}',
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_set_aside_and_what_follows_loads(path: Path, bad: bytes) -> None:
    before, after = user("t1"), reply("t1", text("yes"))
    path.write_bytes(encode(before) + bad + b"\n" + encode(after))
    records, problems = Journal(path).load()
    assert records == [before, after]
    assert [(problem.line, problem.raw) for problem in problems] == [(2, bad)]
    assert problems[0].reason
    aside = path.with_name(SET_ASIDE)
    assert aside.read_bytes() == bad + b"\n"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert Journal(path).load() == (records, problems)
    assert aside.read_bytes() == bad + b"\n"


@pytest.mark.parametrize(
    "glue",
    [b"\0" * 700, b'{"epoch":0,"time":1,"kind":"us', b'{"kind":"user","epoch":0,"ti', b"\xff\xfe"],
)
def test_a_record_glued_to_what_was_torn_is_not_lost(path: Path, glue: bytes) -> None:
    first, second, third = user("t1"), reply("t1", text("a")), end("t1")
    path.write_bytes(encode(first) + glue + encode(second).strip() + encode(third))
    records, problems, _ = read(path)
    assert records == [first, second, third]
    assert [problem.raw for problem in problems] == [glue]


def test_blank_lines_and_carriage_returns_do_no_harm(path: Path) -> None:
    first, second = user("t1"), end("t1")
    path.write_bytes(encode(first).replace(b"\n", b"\r\n") + b"\n \n" + encode(second))
    assert read(path)[:2] == ([first, second], [])


def test_lone_surrogates_in_a_file_are_replaced_and_whole_pairs_kept(path: Path) -> None:
    line = encode(user("t1", text("HERE"))).replace(b"HERE", rb"\ud83d\ude00 \ud83d \\ud83d \udc00")
    path.write_bytes(line)
    (record,), problems, _ = read(path)
    assert record.blocks[0]["text"] == "\U0001f600 \ufffd \\ud83d \ufffd"  # type: ignore[union-attr]
    assert problems == []


@pytest.mark.parametrize(
    "blocks",
    [
        [text("\ud83d lone \udc00")],
        [{"type": "text", "text": "x", "deep": [{"\ud800": ["\udfff", ("\ud900",)]}]}],
        [call("c1", deep=nested(150))],
        [call("c1", deep=nested(198))],
        [call("c1", deep=nested(220))],
        [call("c1", deep=nested(5000))],
        [call("c1", number=float("nan"), other=[float("inf")])],
    ],
)
def test_what_json_cannot_carry_is_written_so_that_it_loads(path: Path, blocks: list[dict[str, Any]]) -> None:
    record = reply("t1", *blocks)
    Journal(path).append([record, end("t1")])
    records, problems, _ = read(path)
    assert (len(records), problems) == (2, [])
    assert encode(records[0]) == encode(record)
    json.loads(path.read_bytes().splitlines()[0].decode())


def test_halves_that_make_a_character_become_it(path: Path) -> None:
    Journal(path).append([user("t1", text("\ud83d" + "\ude00"))])
    assert read(path)[0][0].blocks == [text("\U0001f600")]  # type: ignore[union-attr]


@pytest.mark.parametrize("torn", [b"{", b"\0" * 100, encode(user("t9"))[:-1], b"\xc3"])
def test_a_torn_tail_is_told_kept_aside_and_cut_before_the_next_append(path: Path, torn: bytes) -> None:
    first, second = user("t1"), end("t1")
    path.write_bytes(encode(first) + torn)
    journal = Journal(path)
    records, problems = journal.load()
    assert records == [first]
    assert [problem.line for problem in problems] == [2]
    journal.append([second])
    assert path.read_bytes() == encode(first) + encode(second)
    assert path.with_name(SET_ASIDE).read_bytes() == torn + b"\n"


def test_an_append_without_a_load_cuts_a_torn_tail_too(path: Path) -> None:
    first, second = user("t1"), end("t1")
    path.write_bytes(encode(first) + b'{"ep')
    Journal(path).append([second])
    assert path.read_bytes() == encode(first) + encode(second)


def test_a_file_made_shorter_by_others_gets_no_hole(path: Path) -> None:
    first, second = user("t1"), end("t1")
    journal = Journal(path)
    journal.append([first, first])
    os.truncate(path, len(encode(first)) + 5)
    journal.append([second])
    assert path.read_bytes() == encode(first) + encode(second)


@pytest.mark.parametrize("point", ["journal.append", "journal.written", "journal.synced"])
@pytest.mark.parametrize("error", ["enospc", "eio", "erofs"])
def test_an_append_that_fails_leaves_nothing_and_the_next_one_works(
    path: Path, monkeypatch: pytest.MonkeyPatch, point: str, error: str
) -> None:
    first, lost, second = user("t1"), reply("t1", text("never")), end("t1")
    journal = Journal(path)
    journal.append([first])
    monkeypatch.setattr(journal_module, "fault_point", injector(f"{error}@{point}"))
    with pytest.raises(OSError, match=r"."):
        journal.append([lost])
    assert path.read_bytes() == encode(first)
    journal.append([second])
    assert Journal(path).load() == ([first, second], [])


def test_a_disk_that_takes_only_a_part_is_cut_back_by_the_next_append(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, lost, second = user("t1"), reply("t1", text("x" * 100)), end("t1")
    journal = Journal(path)
    journal.append([first])
    real_truncate = os.ftruncate

    def half(fd: int, data: bytes) -> None:
        os.write(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    def stuck(fd: int, length: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(journal_module, "write_all", half)
        broken.setattr(os, "ftruncate", stuck)
        with pytest.raises(OSError, match="No space"):
            journal.append([lost])
    assert os.ftruncate is real_truncate
    assert path.stat().st_size > len(encode(first))
    journal.append([second])
    assert path.read_bytes() == encode(first) + encode(second)


@pytest.mark.parametrize(
    ("point", "survives"), [("journal.append", False), ("journal.written", True), ("journal.synced", True)]
)
def test_a_kill_in_an_append_leaves_a_history_that_loads(path: Path, point: str, survives: bool) -> None:
    first, second, third = user("t1"), reply("t1", text("hi")), end("t1")
    path.write_bytes(encode(first))
    code = (
        "import pathlib, sys; from shared.journal import Journal; from shared.lines import decode\n"
        "j = Journal(pathlib.Path(sys.argv[1])); j.load(); j.append([decode(sys.argv[2].encode())])"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "IAC_CODE_FAULTS": f"kill@{point}",
    }
    killed = subprocess.run(
        [sys.executable, "-c", code, str(path), encode(second).decode()],
        env=environment,
        timeout=30,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    journal = Journal(path)
    assert journal.load() == ([first, second] if survives else [first], [])
    journal.append([third])
    assert read(path)[0][-1] == third


def test_replace_is_all_or_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old: list[Record] = [user("t1"), end("t1")]
    new: list[Record] = [user("t2"), end("t2")]
    journal = Journal(path)
    journal.append(old)
    for point in ("history.write", "history.written"):
        monkeypatch.setattr("shared.durable.fault_point", injector(f"enospc@{point}"))
        with pytest.raises(OSError, match="No space"):
            journal.replace(new)
        assert read(path)[0] == old
        assert [entry.name for entry in path.parent.iterdir()] == ["history.jsonl"]
    journal.replace(new)
    journal.append([end("t3")])
    assert read(path)[0][:2] == new
    assert len(read(path)[0]) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_append_after_a_replace_that_failed_late_goes_to_the_new_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, last = [user("t2")], end("t2")
    journal = Journal(path)
    journal.append([user("t1"), end("t1")])
    monkeypatch.setattr("shared.durable.fault_point", injector("eio@history.replaced"))
    with pytest.raises(OSError, match="Input/output"):
        journal.replace(new)
    journal.append([last])
    assert read(path)[0] == [*new, last]


def test_on_a_disk_that_takes_nothing_a_history_with_bad_lines_loads_but_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = user("t1")
    path.write_bytes(b"garbage\n" + encode(one))

    def full(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    journal = Journal(path)
    with monkeypatch.context() as broken:
        broken.setattr(journal_module, "write_all", full)
        assert journal.load()[0] == [one]
        with pytest.raises(OSError, match="No space"):
            journal.replace([one])
    assert path.read_bytes().startswith(b"garbage\n")
    journal.replace([one])
    assert path.with_name(SET_ASIDE).read_bytes() == b"garbage\n"
    assert path.read_bytes() == encode(one)


def test_appends_from_many_threads_do_not_mix(path: Path) -> None:
    journal = Journal(path)
    batches: list[list[Record]] = [[result(f"t{n}", f"c{n}", "x" * 5000), end(f"t{n}")] for n in range(20)]
    threads = [threading.Thread(target=journal.append, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records, problems, _ = read(path)
    assert problems == []
    pairs = [records[i : i + 2] for i in range(0, 40, 2)]
    assert sorted(map(str, pairs)) == sorted(map(str, batches))


def test_the_descriptor_is_closed_and_does_not_reach_tools(path: Path) -> None:
    def opened() -> list[int]:
        links = {fd: Path(f"/proc/self/fd/{fd}") for fd in range(3, 200)}
        return [fd for fd, link in links.items() if link.exists() and link.readlink() == path]

    journal = Journal(path)
    journal.append([user("t1")])
    assert [os.get_inheritable(fd) for fd in opened()] == [False]
    journal.close()
    assert opened() == []


def test_finished_turns_end_with_the_last_turn_end_and_have_no_grants() -> None:
    done: list[Record] = [*whole_turn("t1", "c1"), grant(), *whole_turn("t2")]
    trap = call("c9", kind="turn_end", other={"kind": "grant"})
    begun: list[Record] = [user("t3"), reply("t3", trap), grant()]
    data = b"".join(map(encode, [*done, *begun]))
    kept = b"".join(encode(record) for record in done if record.kind != "grant")
    assert finished_turns(data + b'{"torn') == kept
    assert finished_turns(b"".join(map(encode, begun))) == b""
    assert finished_turns(b"") == b""
    with_garbage = b"\0garbage grant\n" + data
    assert finished_turns(with_garbage) == b"\0garbage grant\n" + kept
