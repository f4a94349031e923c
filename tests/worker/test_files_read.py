"""`read_file` and `list_files` show what is there, bounded, and never wait for a file that has no end."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pydantic import ValidationError

from tests.worker.filing import Session
from worker.files.content import digest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def lines_of(text: str) -> list[str]:
    return [line.partition("\t")[2] for line in text.split("\n") if "\t" in line]


async def test_lines_are_numbered(session: Session) -> None:
    (session.folder / "f").write_text("a\n\tb\n\nd")
    output = await session.call("read_file", path="f")
    assert output.text == "     1\ta\n     2\t\tb\n     3\t\n     4\td"


async def test_a_part_says_how_to_read_on(session: Session) -> None:
    (session.folder / "f").write_text("".join(f"{i}\n" for i in range(1, 11)))
    output = await session.call("read_file", path="f", start_line=3, end_line=5)
    assert lines_of(output.text) == ["3", "4", "5"]
    assert output.text.endswith("[lines 3-5 of 10; read on with start_line=6]")
    assert "[" not in (await session.call("read_file", path="f", start_line=9)).text


@pytest.mark.parametrize("line", ["x", "x" * 300, "ä" * 1500])
async def test_reading_on_gives_every_line_once(session: Session, line: str) -> None:
    (session.folder / "f").write_text("".join(f"{i} {line}\n" for i in range(1500)))
    start, seen = 1, []
    while start:
        output = await session.call("read_file", path="f", start_line=start)
        assert len(output.text.encode()) < 130_000
        seen += [text.split()[0] for text in lines_of(output.text)]
        start = int(output.text.rsplit("start_line=", 1)[1][:-1]) if "start_line=" in output.text else 0
    assert seen == [str(i) for i in range(1500)]


@pytest.mark.parametrize("start", [4, 5, 10**9])
async def test_past_the_end_the_number_of_lines_is_told(session: Session, start: int) -> None:
    (session.folder / "f").write_text("a\nb\nc\n")
    output = await session.call("read_file", path="f", start_line=start)
    assert output.is_error
    assert "has 3 lines" in output.text


LARGE = 99 * b"x" + b"\n"


@pytest.mark.parametrize("tail", [b"", b"last"])
@pytest.mark.parametrize("past", [1, 2, 100])
async def test_the_lines_of_a_large_file_are_counted_as_they_are_read(
    session: Session, tail: bytes, past: int
) -> None:
    lines = 680_000
    (session.folder / "f").write_bytes(lines * LARGE + tail)
    lines += bool(tail)
    output = await session.call("read_file", path="f", start_line=lines)
    assert len(lines_of(output.text)) == 1
    output = await session.call("read_file", path="f", start_line=lines + past)
    assert output.is_error
    assert f"has {lines} lines" in output.text


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-32"])
async def test_a_file_of_a_mark_alone_is_empty(session: Session, mark: str) -> None:
    (session.folder / "f").write_bytes("".encode(mark))
    assert (await session.call("read_file", path="f")).text == "(The file is empty.)"
    assert (await session.call("read_file", path="f", start_line=2)).is_error


WIDER = {
    "invalid octets": b"\xef\xbb\xbf" + 3000 * (60 * b"\xff" + b"\n"),
    "latin": 3000 * (60 * b"\xe9" + b"\n"),
    "nuls": 4096 * b"a\n" + 3000 * (100 * b"\0" + b"\n"),
    "no lines": 60_000 * b"\xe9",
}


@pytest.mark.parametrize("case", WIDER)
async def test_the_bound_is_of_what_is_shown(session: Session, case: str) -> None:
    data = WIDER[case]
    (session.folder / "f").write_bytes(data)
    start, seen = 1, 0
    while start:
        output = await session.call("read_file", path="f", start_line=start)
        assert len(output.text.encode()) < 101_000
        numbers = [int(line.split("\t")[0]) for line in output.text.split("\n") if "\t" in line]
        assert numbers == list(range(start, start + len(numbers)))
        seen += len(numbers)
        start = (
            int(output.text.rsplit("start_line=", 1)[1].partition(";")[0].rstrip("]"))
            if "start_line=" in output.text
            else 0
        )
    assert seen == data.count(b"\n") + (not data.endswith(b"\n"))


async def test_an_empty_file_is_said_to_be_empty_and_may_be_written_then(session: Session) -> None:
    (session.folder / "f").touch()
    assert "empty" in (await session.call("read_file", path="f")).text
    assert not (await session.call("write_file", path="f", content="x")).is_error


@pytest.mark.parametrize(
    "raw", [{"start_line": 0}, {"start_line": 3, "end_line": 2}, {"path": ""}, {"path": "a\0b"}]
)
def test_lines_and_paths_that_cannot_be_are_invalid(session: Session, raw: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        session.tool("read_file").Input.model_validate({"path": "f", **raw})


async def test_a_long_line_is_cut_and_the_next_one_is_found(session: Session) -> None:
    (session.folder / "f").write_text("ä" * 3_000_000 + "\nnext\n")
    output = await session.call("read_file", path="f")
    first, second = lines_of(output.text)
    assert first.startswith("ä" * 2000 + " … [line cut: 5,996,000 more bytes]")
    assert second == "next"


async def test_a_line_of_four_octet_characters_is_cut_between_characters(session: Session) -> None:
    (session.folder / "f").write_text("a" + "𝄞" * 5000)
    output = await session.call("read_file", path="f")
    assert "\ufffd" not in output.text
    assert "\\x" not in output.text


ENCODINGS = {
    "utf-8 with a mark": (b"\xef\xbb\xbfa\n", "     1\ta"),
    "begins like bzip2": (b"BZhang wrote this\n", "     1\tBZhang wrote this"),
    "crlf": (b"a\r\nb\r\n", "     1\ta\n     2\tb\n[CRLF line ends]"),
    "mixed": (b"a\r\nb\nc\nd\n", "     1\ta\n     2\tb\n     3\tc\n     4\td\n[CRLF and LF line ends]"),
    "cr": (b"a\rb\r", "     1\ta\rb\r\n[there are carriage returns within lines]"),
    "crlf and cr": (b"a\rb\r\n", "     1\ta\rb\n[CRLF line ends; there are carriage returns within lines]"),
    "crlf without the last": (b"a\r\nb", "     1\ta\n     2\tb\n[CRLF line ends]"),
    "latin": (b"caf\xe9\n", "     1\tcafé\n[decoded from Windows-1252]"),
    "latin-1": (b"\x81\xe9\n", "     1\t\x81é\n[decoded from ISO-8859-1]"),
    "mostly utf-8": ("äö".encode() + b"\xff\n", "     1\täö\\xff\n[decoded from UTF-8 with invalid bytes]"),
    "utf-16": ("a\nü\n".encode("utf-16"), "     1\ta\n     2\tü\n[decoded from UTF-16 LE]"),
    "utf-32": ("ü\n".encode("utf-32"), "     1\tü\n[decoded from UTF-32 LE]"),
}


@pytest.mark.parametrize("case", ENCODINGS)
async def test_text_is_decoded_and_said_so(session: Session, case: str) -> None:
    data, shown = ENCODINGS[case]
    (session.folder / "f").write_bytes(data)
    output = await session.call("read_file", path="f")
    assert output.text == shown
    assert [stamp.digest for stamp in output.stamps] == [digest(data)]


LARGE = b"x" * 99 + b"\n"
"""A line; so many make a file that is not read at once."""


@pytest.mark.parametrize(
    ("first", "start", "shown"),
    [
        (b"\xef\xbb\xbfname,value", 1, "     1\tname,value"),
        (b"a\n\xff\xfe is Latin", 2, "     2\t\xff\xfe is Latin"),
    ],
    ids=["a mark", "a line like a mark"],
)
async def test_a_mark_is_looked_for_at_a_large_files_head_alone(
    session: Session, first: bytes, start: int, shown: str
) -> None:
    (session.folder / "f").write_bytes(first + b"\n" + LARGE * 100_000)
    output = await session.call("read_file", path="f", start_line=start, end_line=start + 1)
    assert output.text.splitlines()[0] == shown


BINARY = {
    "image.png": (b"\x89PNG\r\n\x1a\n\0\0", "PNG image"),
    "text.pdf": (b"%PDF-1.7\nall text", "PDF document"),
    "program": (b"\x7fELF\2\1\1\0", "ELF"),
    "data.bin": (b"a\0b", "binary"),
    "song.mp3": (b"\0\0\0", "audio/mpeg"),
    "dump.bz2": (b"BZh91AY&SY\0", "bzip2"),
    "half.utf16": (b"\xff\xfea", "binary"),
}


@pytest.mark.parametrize("name", BINARY)
async def test_a_binary_file_is_refused_with_type_and_size(session: Session, name: str) -> None:
    data, kind = BINARY[name]
    (session.folder / name).write_bytes(data)
    output = await session.call("read_file", path=name)
    assert output.is_error
    assert kind in output.text
    assert f"{len(data)} bytes" in output.text


CHANGES: dict[str, dict[str, Any]] = {
    "read_file": {},
    "edit_file": {"old_string": "s", "new_string": "x"},
    "write_file": {"content": "x"},
}


def odd_files(folder: Path) -> dict[str, str]:
    os.mkfifo(folder / "fifo")
    (folder / "sub").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "to-fifo").symlink_to("fifo")
    (folder / "to-zero").symlink_to("/dev/zero")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "socket"))
    server.close()
    return {
        "fifo": "FIFO",
        "to-fifo": "FIFO",
        "sub": "list_files",
        ".": "list_files",
        "loop": "circle",
        "dangling": "does not exist",
        "socket": "socket",
        "to-zero": "device",
        "/dev/zero": "device",
        "/dev/tty": "device",
        "/dev/stdin": "",
        "/proc/kmsg": "kernel",
        "/proc/self/status": "kernel",
        "/sys/kernel/uevent_seqnum": "kernel",
        "fifo/x": "does not exist",
        "sub/none": "does not exist",
        "n" * 300: "",
        "/".join(["d"] * 2000): "does not exist",
    }


async def test_what_is_no_regular_file_is_refused_at_once(
    session: Session, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A socket's path may have 107 bytes at most.
    short = tmp_path_factory.mktemp("o")
    session = Session(short)
    with anyio.fail_after(10):
        for path, told in odd_files(short).items():
            for name, raw in CHANGES.items():
                if name == "write_file" and told == "does not exist":
                    continue
                output = await session.call(name, path=path, permitted=True, **raw)
                assert output.is_error, (name, path)
                if name == "read_file":
                    assert told in output.text, path


async def test_names_like_a_missing_one_are_offered(session: Session) -> None:
    (session.folder / "settings.py").touch()
    assert "'settings.py'" in (await session.call("read_file", path="setting.py")).text


async def test_a_10_gb_sparse_file_costs_nothing(session: Session) -> None:
    for name, head in (("empty", b""), ("text", b"first\nsecond\n" + b"line\n" * 3000)):
        with (session.folder / name).open("wb") as file:
            file.write(head)
            file.truncate(10 * 2**30)
        with anyio.fail_after(5):
            for start in (1, 3000, 10**9):
                output = await session.call("read_file", path=name, start_line=start)
                assert len(output.text) < 130_000
            output = await session.edit(name, "first", "x")
            assert output.is_error


async def test_a_path_may_begin_with_a_tilde_or_be_absolute(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(session.folder))
    (session.folder / "f").write_text("here")
    for path in ("~/f", str(session.folder / "f"), "./f", "../work/f"):
        assert "here" in (await session.call("read_file", path=path)).text
    assert (await session.call("read_file", path="~nobody-of-this-name/f")).is_error


async def test_a_link_that_leads_elsewhere_by_now_is_not_followed(session: Session, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    (session.folder / "f").symlink_to(secret)
    (session.folder / ".env").write_text("s3cret")
    (session.folder / "g").symlink_to(".env")
    (session.folder / "d").symlink_to(tmp_path)
    for path in ("f", "g", "d/secret", str(secret)):
        for name, raw in CHANGES.items():
            output = await session.call(name, path=path, **raw)
            assert output.is_error
            assert "not what this call was permitted" in output.text
            assert "s3cret" not in output.text
    assert (await session.call("list_files", path="d")).is_error
    assert "s3cret" in (await session.call("read_file", path="f", permitted=True)).text
    assert secret.read_text() == "s3cret"


async def test_a_file_that_may_not_be_read_says_so(session: Session) -> None:
    if os.getuid() == 0:
        pytest.skip("root may read everything")
    (session.folder / "f").write_text("x")
    (session.folder / "f").chmod(0)
    assert "Permission denied" in (await session.call("read_file", path="f")).text


async def test_a_folder_is_listed(session: Session) -> None:
    (session.folder / "b").mkdir()
    (session.folder / "a.txt").touch()
    (session.folder / ".hidden").touch()
    (session.folder / "link").symlink_to("b")
    output = await session.call("list_files")
    assert output.text == ".hidden\na.txt\nb/\nlink -> b"


async def test_names_of_any_bytes_are_shown_on_one_line(session: Session) -> None:
    for name in (b"new\nline", b"esc\x1b[31m", b"\xff\xfe", "ü\u200b".encode()):
        (session.folder / os.fsdecode(name)).touch()
    output = await session.call("list_files")
    assert sorted(output.text.split("\n")) == ["\\xff\\xfe", "esc\\x1b[31m", "new\\nline", "ü\\u200b"]


async def test_a_huge_folder_is_bounded_and_says_so(session: Session) -> None:
    for i in range(2_500):
        (session.folder / f"{i:04}{'é' * (i % 100)}").mkdir()
    start, seen = 1, []
    while start:
        output = await session.call("list_files", start_entry=start)
        assert len(output.text.encode()) < 61_000
        *names, end = output.text.split("\n")
        seen += [name[:4] for name in names]
        assert end.startswith(f"[entries {start}-{len(seen)} of 2500")
        start = int(end.partition("start_entry=")[2].rstrip("]") or 0)
    assert seen == [f"{i:04}" for i in range(2_500)]
    output = await session.call("list_files", start_entry=2501)
    assert output.is_error
    assert "has 2500 entries" in output.text


async def test_an_empty_folder_a_file_and_nothing_are_told_apart(session: Session) -> None:
    (session.folder / "f").touch()
    (session.folder / "d").mkdir()
    assert (await session.call("list_files", path="d")).text == "(The folder is empty.)"
    assert "read_file" in (await session.call("list_files", path="f")).text
    assert "does not exist" in (await session.call("list_files", path="none")).text
