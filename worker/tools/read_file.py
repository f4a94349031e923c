"""`read_file`: lines of a text file, numbered and bounded, as the editor has them if it has the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from anyio import to_thread
from pydantic import Field, model_validator

from worker.boundaries import resolve
from worker.files import knowing
from worker.files.content import WHOLE, content_of
from worker.files.decoding import UTF8, Encoding, describe_binary, detect, is_wide
from worker.files.editor import unsaved_key, unsaved_stamp, unsaved_text
from worker.files.lines import window
from worker.files.naming import FilePath, absolute
from worker.files.opening import MissingError, Reach, open_file
from worker.files.telling import told, whole_characters
from worker.tools.base import Access, FileStamp, Tool, ToolError, ToolInput, ToolOutput

if TYPE_CHECKING:
    from pathlib import Path

    from worker.files.opening import Opened
    from worker.tools.base import ToolContext

_HEAD: Final = 8192


class ReadFileInput(ToolInput):
    """Which lines of which file."""

    path: FilePath = Field(description="The file, relative to the working directory or absolute.")
    start_line: int = Field(default=1, ge=1, description="The first line to read; 1 is the file's first.")
    end_line: int | None = Field(default=None, ge=1, description="The last line to read, itself included.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end_line is not None and self.end_line < self.start_line:
            raise ValueError(f"end_line {self.end_line} lies before start_line {self.start_line}")
        return self


@dataclass(frozen=True, slots=True)
class _Read:
    path: Path
    """Resolved."""
    stamp: str = ""
    text: str | None = None
    """The result, if it is known already."""
    data: bytes = b""
    """The whole of a file that the editor may have other text of."""
    encoding: Encoding = UTF8
    missing: MissingError | None = None
    """The disk has none, but the editor may."""
    refused: str = ""
    """Why it is not shown. It counts as read all the same: more of it cannot be known."""


class ReadFile(Tool[ReadFileInput]):
    """See the module."""

    name = "read_file"
    kind = "read"
    description = (
        "Reads a text file. Each line comes after its number and a tab. At most 2,000 lines and about 100 kB "
        "at a time; the end of the result says how to read on."
    )
    Input = ReadFileInput
    read_only = True

    def title(self, args: ReadFileInput) -> str:
        if args.start_line == 1 and args.end_line is None:
            return f"Read {args.path}"
        return f"Read {args.path} ({args.start_line}-{args.end_line or ''})"

    def accesses(self, args: ReadFileInput, cwd: Path) -> list[Access]:
        return [Access(absolute(args.path, cwd), write=False)]

    def locations(self, args: ReadFileInput, cwd: Path) -> list[dict[str, Any]]:
        return [{"path": str(absolute(args.path, cwd)), "line": args.start_line}]

    async def run(self, args: ReadFileInput, context: ToolContext) -> ToolOutput:
        named = absolute(args.path, context.cwd)
        reach = Reach.of(context, write=False)
        # In one go: each wait for a thread costs a fifth of what a short file takes.
        read = await to_thread.run_sync(
            _read, named, args, reach, context.editor.reads_files, abandon_on_cancel=True
        )
        stamps = [knowing.stamp(read.path, read.stamp)] if read.missing is None else []
        knowing.forget_written(context, read.path)
        if read.refused:
            return ToolOutput(read.refused, is_error=True, stamps=stamps)
        if read.text is not None:
            return ToolOutput(read.text, stamps=stamps)
        unsaved = await unsaved_text(context, read.path, read.data)
        if unsaved is not None:
            return ToolOutput(_unsaved(unsaved, args), stamps=[*stamps, _unsaved_stamp(read.path, unsaved)])
        if read.missing is not None:
            raise read.missing
        text = await to_thread.run_sync(_render, read.data, args, read.encoding, abandon_on_cancel=True)
        return ToolOutput(text, stamps=stamps)


def _unsaved_stamp(path: Path, text: str) -> FileStamp:
    return FileStamp(unsaved_key(path), unsaved_stamp(text))


def _unsaved(text: str, args: ReadFileInput) -> str:
    data = text.encode("utf-8", "replace")
    return _render(data, args, UTF8) + "\n[As the editor has it, with changes that are not saved.]"


def _read(named: Path, args: ReadFileInput, reach: Reach, editor_may_have_it: bool) -> _Read:
    path = resolve(named)
    try:
        with open_file(path, reach) as opened:
            return _read_opened(path, opened, args, editor_may_have_it)
    except MissingError as error:
        reach.check(path)
        if not editor_may_have_it:
            raise
        return _Read(path, missing=error)
    except OSError as e:
        raise ToolError(f"{path} cannot be read: {e.strerror or e}.") from e


def _read_opened(path: Path, opened: Opened, args: ReadFileInput, editor_may_have_it: bool) -> _Read:
    content = content_of(opened)
    head = content.at(0, _HEAD)
    if content.data is not None:
        encoding = detect(content.data)
        if encoding is None:
            return _Read(path, content.stamp, refused=_binary(path, head, content.size))
        text = None if editor_may_have_it else _render(content.data, args, encoding)
        return _Read(path, content.stamp, text, content.data, encoding)
    if is_wide(head):
        refused = (
            f"{path} is UTF-16 or UTF-32 of more than {WHOLE // 2**20} MB. Convert it first (bash: iconv)."
        )
        return _Read(path, content.stamp, refused=refused)
    of_head = detect(head)
    if of_head is None:
        return _Read(path, content.stamp, refused=_binary(path, head, content.size))
    mark = len(of_head.bom)
    found = window(
        lambda offset, length: content.at(offset + mark, length),
        content.size - mark,
        args.start_line,
        args.end_line,
    )
    # Only a file's head has a mark or a magic number: these lines may begin like one.
    encoding = detect(b"\n".join((b"", *(whole_characters(line) for line in found.lines)))) or UTF8
    return _Read(path, content.stamp, told(found, encoding))


def _binary(path: Path, head: bytes, size: int) -> str:
    kind = describe_binary(head, path.name)
    return f"{path} is {kind}, {size:,} bytes, not text, so it is not shown."


def _render(data: bytes, args: ReadFileInput, encoding: Encoding) -> str:
    name = encoding
    if encoding.codec != UTF8.codec and is_wide(data):
        data, encoding = encoding.decode(data).encode("utf-8", "replace"), UTF8
    elif encoding.bom:
        data = data[len(encoding.bom) :]
    found = window(
        lambda offset, length: data[offset : offset + length], len(data), args.start_line, args.end_line
    )
    return told(found, encoding, name)


TOOL = ReadFile()
