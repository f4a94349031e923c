"""Files through the client's editor, where it offers that, and the disk wherever it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.filing import Editor, Session, refusing, silent

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


class Buffers:
    """An editor with open files. `saves` makes what it puts on the disk of a text; None: it puts nothing."""

    def __init__(self, saves: Callable[[str], str] | None = lambda text: text) -> None:
        self.texts: dict[str, str] = {}
        self.saves = saves

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        path = params["path"]
        if path in self.texts:
            return {"content": self.texts[path]}
        return {"content": Path(path).read_bytes().decode()}

    def write(self, params: dict[str, Any]) -> None:
        self.texts[params["path"]] = params["content"]
        if self.saves is not None:
            Path(params["path"]).write_bytes(self.saves(params["content"]).encode())

    def editor(self) -> Editor:
        return Editor({"fs/read_text_file": self.read, "fs/write_text_file": self.write})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def test_unsaved_text_is_what_is_read(folder: Path) -> None:
    (folder / "f").write_text("saved\n")
    buffers = Buffers()
    session = Session(folder, buffers.editor())
    assert "not saved" not in (await session.call("read_file", path="f")).text
    buffers.texts[str(folder / "f")] = "unsaved\nlines\n"
    output = await session.call("read_file", path="f", start_line=2)
    assert output.text == "     2\tlines\n[As the editor has it, with changes that are not saved.]"


async def test_a_file_that_only_the_editor_has_is_read(folder: Path) -> None:
    buffers = Buffers()
    buffers.texts[str(folder / "new")] = "draft"
    session = Session(folder, buffers.editor())
    assert "draft" in (await session.call("read_file", path="new")).text
    assert (await Session(folder).call("read_file", path="new")).is_error


@pytest.mark.parametrize("line_ends", ["\n", "\r\n"])
async def test_an_edit_goes_through_the_editor_and_keeps_every_byte(folder: Path, line_ends: str) -> None:
    # An editor that has its own idea of line ends and marks.
    buffers = Buffers(saves=lambda text: text.replace("\r\n", "\n").replace("\n", line_ends).lstrip("\ufeff"))
    session = Session(folder, buffers.editor())
    for data, after in (
        (b"a\r\nb\r\n", b"a\r\nx\r\ny\r\n"),
        (b"a\nb\n", b"a\nx\ny\n"),
        (b"\xef\xbb\xbfa\nb", b"\xef\xbb\xbfa\nx\ny"),
    ):
        (folder / "f").write_bytes(data)
        buffers.texts.clear()
        assert not (await session.edit("f", "b", "x\ny")).is_error
        assert (folder / "f").read_bytes() == after
        assert any(key.endswith(":fs-write") for key in session.editor.asked)
        # It is known now, without being read again.
        output = await session.call("edit_file", path="f", old_string="x", new_string="z")
        assert not output.is_error, output.text


async def test_an_edit_keeps_unsaved_changes(folder: Path) -> None:
    (folder / "f").write_text("one\ntwo\n")
    buffers = Buffers()
    session = Session(folder, buffers.editor())
    await session.call("read_file", path="f")
    buffers.texts[str(folder / "f")] = "one\ntwo\nthree, typed by the user\n"
    assert not (await session.call("edit_file", path="f", old_string="one", new_string="1")).is_error
    assert buffers.texts[str(folder / "f")] == "1\ntwo\nthree, typed by the user\n"
    assert (folder / "f").read_text() == "1\ntwo\nthree, typed by the user\n"


async def test_unsaved_changes_that_were_not_read_are_not_overwritten(folder: Path) -> None:
    (folder / "f").write_text("one\n")
    buffers = Buffers()
    session = Session(folder, buffers.editor())
    await session.call("read_file", path="f")
    buffers.texts[str(folder / "f")] = "one\ntyped by the user\n"
    output = await session.call("write_file", path="f", content="new\n")
    assert output.is_error
    assert "not saved and were not read" in output.text
    await session.call("read_file", path="f")
    assert not (await session.call("write_file", path="f", content="new\n")).is_error
    assert (folder / "f").read_text() == "new\n"


@pytest.mark.parametrize(
    "answer", [refusing, silent, lambda _params: "nonsense", lambda _params: {"content": 5}]
)
async def test_a_client_that_does_not_do_it_leaves_the_disk(
    folder: Path, answer: Callable[[dict[str, Any]], Any]
) -> None:
    (folder / "f").write_text("a\n")
    buffers = Buffers()
    session = Session(folder, Editor({"fs/read_text_file": answer, "fs/write_text_file": buffers.write}))
    assert "a" in (await session.call("read_file", path="f")).text
    assert not (await session.edit("f", "a", "b")).is_error
    assert (folder / "f").read_text() == "b\n"


@pytest.mark.parametrize("answer", [refusing, silent])
async def test_a_write_that_the_client_does_not_do_goes_to_the_disk(
    folder: Path, answer: Callable[[dict[str, Any]], Any]
) -> None:
    session = Session(folder, Editor({"fs/write_text_file": answer}))
    await session.call("write_file", path="new/f", content="a\n")
    await session.call("edit_file", path="new/f", old_string="a", new_string="b")
    assert (folder / "new" / "f").read_text() == "b\n"


async def test_what_is_not_utf_8_never_goes_through_the_editor(folder: Path) -> None:
    (folder / "f").write_bytes(b"caf\xe9\n")
    session = Session(folder, Buffers().editor())
    # The read fails in the editor, as it does in real ones.
    session.editor.methods["fs/read_text_file"] = refusing
    await session.edit("f", "caf", "Caf")
    assert (folder / "f").read_bytes() == b"Caf\xe9\n"
    assert not any(key.endswith(":fs-write") for key in session.editor.asked)


async def test_an_editor_that_formats_on_save_is_told_of_and_the_file_must_be_read_again(
    folder: Path,
) -> None:
    (folder / "f").write_text("a=1\n")
    session = Session(folder, Buffers(saves=lambda text: text.replace("=", " = ")).editor())
    output = await session.edit("f", "1", "2")
    assert "formatted perhaps" in output.text
    assert (folder / "f").read_text() == "a = 2\n"
    assert (await session.call("edit_file", path="f", old_string="2", new_string="3")).is_error


async def test_an_editor_that_does_not_save_is_told_of(folder: Path) -> None:
    (folder / "f").write_text("a\n")
    buffers = Buffers(saves=None)
    session = Session(folder, buffers.editor())
    output = await session.edit("f", "a", "b")
    assert "not saved it yet" in output.text
    assert not (await session.call("edit_file", path="f", old_string="b", new_string="c")).is_error
    assert buffers.texts[str(folder / "f")] == "c\n"


async def test_a_client_without_files_is_never_asked(folder: Path) -> None:
    session = Session(folder)
    await session.call("write_file", path="f", content="a")
    await session.edit("f", "a", "b")
    assert session.editor.asked == []
