"""`write_file`, and how all changes reach the disk: whole or not at all, with mode, owner, links."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.filing import Session, names_in
from worker.files import writing
from worker.files.opening import Reach
from worker.files.writing import write_whole
from worker.tools.base import ToolError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_new_file_needs_no_reading_and_its_folders_are_made(session: Session) -> None:
    output = await session.call("write_file", path="a/b/c.txt", content="one\ntwo\n")
    assert output.text == "Created a/b/c.txt: 2 lines, 8 bytes. Lines: +2 -0."
    assert (session.folder / "a/b/c.txt").read_text() == "one\ntwo\n"
    assert output.content == [
        {"type": "diff", "path": str(session.folder / "a/b/c.txt"), "newText": "one\ntwo\n"}
    ]
    assert names_in(session.folder / "a/b") == ["c.txt"]


async def test_a_new_file_has_the_mode_that_the_user_wants(session: Session) -> None:
    previous = os.umask(0o027)
    try:
        await session.call("write_file", path="f", content="x")
    finally:
        os.umask(previous)
    assert (session.folder / "f").stat().st_mode & 0o7777 == 0o640


async def test_what_a_session_wrote_it_may_write_again(session: Session) -> None:
    await session.call("write_file", path="f", content="x")
    output = await session.call("write_file", path="f", content="y\n")
    assert output.text == "Overwrote f: 1 line, 2 bytes. Lines: +1 -1."


async def test_an_unread_file_is_not_overwritten(session: Session) -> None:
    for name, data in (("f", b"x"), ("empty", b""), ("binary", b"\0")):
        (session.folder / name).write_bytes(data)
        output = await session.call("write_file", path=name, content="y")
        assert output.is_error
        assert "not read in this session" in output.text
        assert (session.folder / name).read_bytes() == data


NOT_SHOWN = {
    "a nul": b"text\n\0\n",
    "an image": b"\x89PNG\r\n\x1a\n\0",
    "a large one": b"\0" * 9_000_000,
    "large utf-16": ("x\n" * 3_000_000).encode("utf-16"),
}


@pytest.mark.parametrize("case", NOT_SHOWN)
async def test_what_cannot_be_shown_may_be_overwritten_once_it_was_looked_at(
    session: Session, case: str
) -> None:
    file = session.folder / "f"
    file.write_bytes(NOT_SHOWN[case])
    assert (await session.call("write_file", path="f", content="y")).is_error
    assert (await session.call("read_file", path="f")).is_error
    with file.open("ab") as changed:
        changed.write(b"\0\0")
    assert "changed since" in (await session.call("write_file", path="f", content="y")).text
    assert (await session.call("read_file", path="f")).is_error
    assert not (await session.call("write_file", path="f", content="y")).is_error


async def test_one_session_does_not_know_what_another_wrote(session: Session, tmp_path: Path) -> None:
    await session.call("write_file", path="f", content="x")
    other = Session(tmp_path)
    assert (await other.call("write_file", path="work/f", content="y")).is_error


STYLES: dict[str, tuple[bytes, str, bytes, str]] = {
    "crlf kept": (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n", "CRLF line ends were kept"),
    "crlf in the content": (b"a\nb\n", "x\r\ny\n", b"x\r\ny\n", ""),
    "mixed files have no style": (b"a\r\nb\n", "x\ny\n", b"x\ny\n", ""),
    "bom kept": (b"\xef\xbb\xbfa", "x", b"\xef\xbb\xbfx", "byte order mark was kept"),
    "bom not doubled": (b"\xef\xbb\xbfa", "\ufeffx", b"\xef\xbb\xbfx", ""),
    "encoding kept": (b"caf\xe9", "thé", b"th\xe9", "Windows-1252, was kept"),
    "encoding too small": (b"caf\xe9", "→", "→".encode(), "It is UTF-8 now"),
    "damage not kept": ("äö".encode() + b"\xff", "ü", "ü".encode(), ""),
    "utf-16 kept": ("a\r\nb\r\n".encode("utf-16"), "ü\nx", "ü\r\nx".encode("utf-16"), "UTF-16 LE, was kept"),
}


@pytest.mark.parametrize("case", STYLES)
async def test_overwriting_keeps_the_style_of_the_file_and_says_so(session: Session, case: str) -> None:
    before, content, after, told = STYLES[case]
    (session.folder / "f").write_bytes(before)
    await session.call("read_file", path="f")
    output = await session.call("write_file", path="f", content=content)
    assert (session.folder / "f").read_bytes() == after
    assert told in output.text


async def test_the_same_content_is_not_written_again(session: Session) -> None:
    await session.call("write_file", path="f", content="x\n")
    before = (session.folder / "f").stat()
    output = await session.call("write_file", path="f", content="x\n")
    assert "already" in output.text
    assert (session.folder / "f").stat() == before


async def test_mode_owner_and_attributes_stay(session: Session) -> None:
    file = session.folder / "f.sh"
    file.write_text("a")
    file.chmod(0o751)
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError:
        attributes: dict[str, bytes] = {}
    else:
        attributes = {"user.note": b"kept"}
    if os.getuid() == 0:
        os.chown(file, 12345, 54321)
        file.chmod(0o4751)
    before = file.stat()
    await session.edit("f.sh", "a", "b")
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    for name, value in attributes.items():
        assert os.getxattr(file, name) == value


async def test_a_link_stays_and_its_target_is_changed(session: Session) -> None:
    (session.folder / "sub").mkdir()
    target = session.folder / "sub" / "target"
    target.write_text("a")
    (session.folder / "one").symlink_to("sub/target")
    (session.folder / "two").symlink_to("one")
    assert not (await session.edit("two", "a", "b")).is_error
    assert target.read_text() == "b"
    assert (session.folder / "two").readlink().name == "one"
    assert (session.folder / "one").is_symlink()
    # What was read by one name is known by every other.
    assert not (await session.call("edit_file", path="sub/target", old_string="b", new_string="c")).is_error


async def test_a_dangling_link_inside_makes_its_target(session: Session) -> None:
    (session.folder / "link").symlink_to("made/later")
    await session.call("write_file", path="link", content="x")
    assert (session.folder / "made" / "later").read_text() == "x"
    assert (session.folder / "link").is_symlink()


async def test_a_dangling_link_to_outside_makes_nothing(session: Session, tmp_path: Path) -> None:
    (session.folder / "link").symlink_to(tmp_path / "outside")
    (session.folder / "folder").symlink_to(tmp_path)
    for path in ("link", "folder/new", "folder/a/b", "../new"):
        assert (await session.call("write_file", path=path, content="x")).is_error
    assert names_in(tmp_path) == ["work"]


async def test_a_link_into_what_git_keeps_is_not_written_through(session: Session) -> None:
    (session.folder / ".git").mkdir()
    (session.folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("HEAD", "commondir"):
        (session.folder / name.lower()).symlink_to(f".git/{name}")
    assert not (await session.call("read_file", path="head")).is_error
    for name in ("head", "commondir"):
        output = await session.call("write_file", path=name, content="../evil\n")
        assert "not what this call was permitted" in output.text
    assert names_in(session.folder / ".git") == ["HEAD"]


async def test_hard_links_stay_the_same_file(session: Session) -> None:
    file = session.folder / "f"
    file.write_text("long content")
    os.link(file, session.folder / "other")
    assert not (await session.edit("f", "long content", "short")).is_error
    assert (session.folder / "other").read_text() == "short"
    assert file.samefile(session.folder / "other")
    assert session.names() == ["f", "other"]


async def test_a_file_that_may_not_be_written_is_left_alone(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (session.folder / "f").write_text("a")
    (session.folder / "f").chmod(0o444)
    if os.getuid() == 0:
        monkeypatch.setattr(os, "access", lambda *_args, **_more: False)
    output = await session.edit("f", "a", "b")
    assert "not writable (mode 0444)" in output.text


async def test_a_file_in_the_way_of_a_folder_is_told(session: Session) -> None:
    (session.folder / "f").touch()
    output = await session.call("write_file", path="f/x/y", content="x")
    assert output.is_error
    assert f"{session.folder / 'f'} is a file, not a folder" in output.text


async def test_a_path_that_names_a_folder_is_not_written_as_a_file(session: Session) -> None:
    output = await session.call("write_file", path="new/", content="x")
    assert output.is_error
    assert session.names() == []


def _reach(folder: Path) -> Reach:
    return Reach((folder,), frozenset(), write=True)


async def test_a_full_disk_leaves_the_old_content(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    file = session.folder / "f"
    file.write_text("old")
    await session.call("read_file", path="f")
    monkeypatch.setattr(writing, "write_all", full)
    output = await session.call("write_file", path="f", content="new")
    assert "No space left" in output.text
    assert file.read_text() == "old"
    assert session.names() == ["f"]


async def test_a_write_in_place_cut_short_leaves_the_new_content_beside_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncate(_fd: int, _length: int) -> None:
        raise OSError(5, "Input/output error")

    (session.folder / "f").write_text("old and long")
    os.link(session.folder / "f", session.folder / "g")
    await session.call("read_file", path="f")
    monkeypatch.setattr(os, "ftruncate", truncate)
    output = await session.call("write_file", path="f", content="new")
    assert output.is_error
    (copy,) = [name for name in session.names() if name.endswith(".tmp")]
    assert copy in output.text
    assert (session.folder / copy).read_text() == "new"


def test_a_change_by_someone_else_at_the_last_moment_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    before = file.stat()
    file.write_text("theirs")
    with pytest.raises(ToolError, match="at this moment"):
        write_whole(file, b"mine", before, _reach(tmp_path))
    with pytest.raises(ToolError, match="at this moment"):
        write_whole(file, b"mine", None, _reach(tmp_path))
    assert file.read_text() == "theirs"
    assert names_in(tmp_path) == ["f"]


def test_of_two_that_make_a_file_at_once_one_is_told(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def make(content: bytes) -> None:
        try:
            write_whole(tmp_path / "new", content, None, _reach(tmp_path))
            outcomes.append(content.decode())
        except ToolError:
            outcomes.append("refused")

    threads = [threading.Thread(target=make, args=(f"{i}".encode(),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("refused") == 7
    assert (tmp_path / "new").read_text() in outcomes
    assert names_in(tmp_path) == ["new"]


def test_a_reader_sees_the_old_or_the_new_content_whole(tmp_path: Path) -> None:
    file = tmp_path / "f"
    contents = [letter * 300_000 for letter in (b"a", b"b")]
    file.write_bytes(contents[0])
    done = threading.Event()

    def write() -> None:
        for i in range(60):
            write_whole(file, contents[i % 2], file.stat(), _reach(tmp_path))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert file.read_bytes() in contents
    writer.join()


KILLED = """
import os, sys
from pathlib import Path
from worker.files import writing
from worker.files.opening import Reach
path = Path(sys.argv[1])
real = getattr(os, sys.argv[2])
setattr(os, sys.argv[2], lambda *a, **k: os._exit(9))
writing.write_whole(path, b"new" * 100_000, path.stat(), Reach((path.parent,), frozenset(), write=True))
"""


@pytest.mark.parametrize("moment", ["write", "fsync", "rename", "access"])
def test_a_kill_at_any_moment_leaves_the_old_content(tmp_path: Path, moment: str) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(file), moment], check=False)
    assert ended.returncode == 9
    assert file.read_text() == "old"


def test_a_folder_that_becomes_a_link_meanwhile_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    real = os.open

    def swapped(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path) == str(inside / "sub"):
            (inside / "sub").rename(inside / "moved")
            (inside / "sub").symlink_to(outside)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(ToolError):
        write_whole(inside / "sub" / "f", b"x", None, _reach(inside))
    assert names_in(outside) == []
