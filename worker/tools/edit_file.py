"""`edit_file`: replace a string in a file, exactly where it stands, and nothing else."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from pydantic import Field

from worker.files.changing import Change, Source, change_file, preview_change
from worker.files.decoding import Encoding, alternatives
from worker.files.diffs import regions_of
from worker.files.editing import NotFoundError, replacements, spliced
from worker.files.naming import FilePath, absolute
from worker.files.near_miss import nearest
from worker.tools.base import Access, Tool, ToolError, ToolInput

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.base import ToolContext, ToolOutput


class EditFileInput(ToolInput):
    """What to replace by what."""

    path: FilePath = Field(description="The file, relative to the working directory or absolute.")
    old_string: str = Field(
        description="The text to replace, exactly as it is in the file, without the line numbers "
        "of read_file. It must occur once, unless replace_all is set: give enough of the lines around it."
    )
    new_string: str = Field(description="The text to put there.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")


class EditFile(Tool[EditFileInput]):
    """See the module."""

    name = "edit_file"
    kind = "edit"
    description = (
        "Replaces a string in a file. The file must have been read with read_file in this session. "
        "Line ends, encoding and all other bytes stay as they are."
    )
    Input = EditFileInput

    def title(self, args: EditFileInput) -> str:
        return f"Edit {args.path}"

    def accesses(self, args: EditFileInput, cwd: Path) -> list[Access]:
        return [Access(absolute(args.path, cwd), write=True)]

    async def preview(self, args: EditFileInput, context: ToolContext) -> list[dict[str, Any]]:
        named = absolute(args.path, context.cwd)
        return await to_thread.run_sync(
            preview_change, context, named, partial(_plan, args), abandon_on_cancel=True
        )

    async def run(self, args: EditFileInput, context: ToolContext) -> ToolOutput:
        named = absolute(args.path, context.cwd)
        return await change_file(context, named, partial(_plan, args), overwrites=False)


def _plan(args: EditFileInput, source: Source) -> Change:
    if source.data is None:
        raise ToolError(f"{args.path} does not exist. To make a new file, use write_file.")
    if source.encoding is None:
        raise ToolError(f"{args.path} is binary, so it is not edited as text.")
    with contextlib.suppress(ToolError, UnicodeEncodeError):
        # Told from the text below: why there is no such place, or which character the file cannot have.
        if (change := _in_octets(args, source)) is not None:
            return change
    try:
        return _edited(args, source.text, source.encoding)
    except NotFoundError as e:
        # Text that was typed for the file may stand in it in another encoding than most of it.
        tried = () if args.old_string.isascii() else alternatives(source.encoding, source.data)
        for encoding in tried:
            with contextlib.suppress(NotFoundError):
                return _edited(args, encoding.decode(source.data), encoding)
        raise ToolError(f"{e}{nearest(source.text, args.old_string)}") from e


def _in_octets(args: EditFileInput, source: Source) -> Change | None:
    """The edit of bytes that need not become text: 5 MB that are not ASCII take 25 ms back and forth."""
    encoding = source.encoding
    if source.data is None or source.unsaved is not None or encoding is None or encoding.octets is None:
        return None
    octets = encoding.octets
    strings = {
        name: text.encode(encoding.codec).decode(octets.codec)
        for name, text in (("old_string", args.old_string), ("new_string", args.new_string))
    }
    change = _edited(args.model_copy(update=strings), octets.decode(source.data), octets)
    return replace(change, shown_in=encoding)


def _edited(args: EditFileInput, text: str, encoding: Encoding) -> Change:
    changes = replacements(text, args.old_string, args.new_string, everywhere=args.replace_all)
    times = "1 replacement" if len(changes) == 1 else f"{len(changes)} replacements"
    line = text.count("\n", 0, changes[0].start) + 1
    told = f"Edited {args.path}: {times}, {'' if len(changes) == 1 else 'the first '}at line {line}."
    new = spliced(text, changes)
    crlf = "\r\n" not in args.new_string and any("\r\n" in change.text for change in changes)
    notes = ["The new lines end in CRLF, as those around them."] if crlf else []
    return Change(text, new, encoding, regions_of(text, changes), told, notes)


TOOL = EditFile()
