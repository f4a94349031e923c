"""`list_files`: what is in one folder, its own entries only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from pydantic import Field

from worker.boundaries import resolve
from worker.files.naming import FilePath, absolute
from worker.files.opening import Reach, open_folder
from worker.tools.base import Access, Tool, ToolError, ToolInput, ToolOutput

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.base import ToolContext

_LISTED: Final = 1000
_OCTETS: Final = 60_000
_SEEN: Final = 200_000
"""Entries that are looked at; sorting needs them all."""


class ListFilesInput(ToolInput):
    """Which folder."""

    path: FilePath = Field(default=".", description="The folder; the working directory if left out.")


class ListFiles(Tool[ListFilesInput]):
    """See the module."""

    name = "list_files"
    kind = "read"
    description = (
        "Lists a folder: folders end in /, links show where they lead. Not recursive; "
        "to find files below, use glob."
    )
    Input = ListFilesInput
    read_only = True

    def title(self, args: ListFilesInput) -> str:
        return f"List {args.path}"

    def accesses(self, args: ListFilesInput, cwd: Path) -> list[Access]:
        return [Access(absolute(args.path, cwd), write=False)]

    async def run(self, args: ListFilesInput, context: ToolContext) -> ToolOutput:
        named = absolute(args.path, context.cwd)
        return ToolOutput(
            await to_thread.run_sync(_listed, named, Reach.of(context, write=False), abandon_on_cancel=True)
        )


def _listed(named: Path, reach: Reach) -> str:
    with open_folder(resolve(named), reach) as opened:
        names: list[tuple[str, str]] = []
        cut = False
        try:
            with os.scandir(opened.fd) as entries:
                for entry in entries:
                    if len(names) == _SEEN:
                        cut = True
                        break
                    names.append((entry.name, _suffix(entry, opened.fd)))
        except OSError as e:
            raise ToolError(f"{named} cannot be listed: {e.strerror or e}.") from e
    names.sort()
    lines: list[str] = []
    octets = 0
    for name, suffix in names[:_LISTED]:
        line = printable(name) + suffix
        octets += len(line.encode()) + 1
        if octets > _OCTETS:
            break
        lines.append(line)
    if cut:
        lines.append(f"[more than {_SEEN:,} entries; these are some of them. Use glob with a pattern]")
    elif len(lines) < len(names):
        lines.append(f"[{len(lines)} of {len(names)} entries. Use glob with a pattern for the others]")
    return "\n".join(lines) or "(The folder is empty.)"


def _suffix(entry: os.DirEntry[str], folder: int) -> str:
    try:
        if entry.is_symlink():
            return f" -> {printable(os.readlink(entry.name, dir_fd=folder))}"
        return "/" if entry.is_dir(follow_symlinks=False) else ""
    except OSError:
        # It is gone again; its name was there when the folder was read.
        return ""


def printable(name: str) -> str:
    """A file name on one line: control characters and bytes that are no text as escapes."""
    if name.isprintable():
        return name
    return "".join(_escaped(character) for character in name)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character if character.isprintable() else repr(character)[1:-1]


TOOL = ListFiles()
