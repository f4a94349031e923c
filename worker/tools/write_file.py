"""`write_file`: give a file its whole content; it is made, with its folders, if it does not exist."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from pydantic import Field

from worker.files.changing import Change, Source, change_file, preview_change
from worker.files.decoding import UTF8, UTF8_BROKEN, Encoding
from worker.files.diffs import region_between
from worker.files.naming import FilePath, absolute
from worker.tools.base import Access, Tool, ToolError, ToolInput

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.base import ToolContext, ToolOutput


class WriteFileInput(ToolInput):
    """What to write where."""

    path: FilePath = Field(description="The file, relative to the working directory or absolute.")
    content: str = Field(description="The whole content of the file.")


class WriteFile(Tool[WriteFileInput]):
    """See the module."""

    name = "write_file"
    kind = "edit"
    description = (
        "Writes a whole file, and makes the folders that are missing. A file that exists must have been read "
        "with read_file in this session; to change a part of it, use edit_file."
    )
    Input = WriteFileInput

    def title(self, args: WriteFileInput) -> str:
        return f"Write {args.path}"

    def accesses(self, args: WriteFileInput, cwd: Path) -> list[Access]:
        return [Access(absolute(args.path, cwd), write=True)]

    async def preview(self, args: WriteFileInput, context: ToolContext) -> list[dict[str, Any]]:
        named = absolute(args.path, context.cwd)
        return await to_thread.run_sync(
            preview_change, context, named, partial(_plan, args), abandon_on_cancel=True
        )

    async def run(self, args: WriteFileInput, context: ToolContext) -> ToolOutput:
        if args.path.endswith("/"):
            raise ToolError(f"{args.path} names a folder. Give the path of the file to write.")
        named = absolute(args.path, context.cwd)
        return await change_file(context, named, partial(_plan, args), overwrites=True)


def _plan(args: WriteFileInput, source: Source) -> Change:
    """Line feeds alone take over CRLF from a file that has nothing else; a CRLF in the content is meant."""
    text, notes = args.content, []
    if source.data is not None and "\r" not in text and "\n" in text and _is_crlf(source.text):
        text = text.replace("\n", "\r\n")
        notes.append("The file's CRLF line ends were kept.")
    encoding = source.encoding or UTF8
    if encoding.bom:
        text = text.removeprefix("\ufeff")
        notes.append("Its byte order mark was kept.")
    if encoding.codec != UTF8.codec:
        encoding = _kept(encoding, text, notes)
    elif encoding.errors == UTF8_BROKEN.errors:
        encoding = Encoding(UTF8.name, UTF8.codec, bom=encoding.bom)
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    verb = "Created" if source.data is None else "Overwrote"
    size = len(encoding.bom) + len(text.encode(encoding.codec, "replace"))
    told = f"{verb} {args.path}: {_counted(lines, 'line')}, {_counted(size, 'byte')}."
    return Change(source.text, text, encoding, region_between(source.text, text), told, notes)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is_crlf(text: str) -> bool:
    return "\r" in text and text.count("\r\n") == text.count("\n") > 0


def _kept(encoding: Encoding, text: str, notes: list[str]) -> Encoding:
    """The file's own encoding if it has all characters of the new text, else UTF-8."""
    try:
        encoding.encode(text)
    except UnicodeEncodeError:
        notes.append(f"It is UTF-8 now; {encoding.name}, as it was, lacks some of the characters.")
        return UTF8
    notes.append(f"Its encoding, {encoding.name}, was kept.")
    return encoding


TOOL = WriteFile()
