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
    """Which part of which folder."""

    path: FilePath = Field(default=".", description="The folder; the working directory if left out.")
    start_entry: int = Field(
        default=1,
        ge=1,
        description="The first entry to list, in the order of names; 1 is the folder's first.",
    )


class ListFiles(Tool[ListFilesInput]):
    """See the module."""

    name = "list_files"
    kind = "read"
    description = (
        "Lists a folder: folders end in /, links show where they lead. Not recursive; "
        "to find files below, use glob. At most 1,000 entries at a time; the end says how to go on."
    )
    Input = ListFilesInput
    read_only = True

    def title(self, args: ListFilesInput) -> str:
        return f"List {args.path}"

    def accesses(self, args: ListFilesInput, cwd: Path) -> list[Access]:
        return [Access(absolute(args.path, cwd), write=False)]

    async def run(self, args: ListFilesInput, context: ToolContext) -> ToolOutput:
        named = absolute(args.path, context.cwd)
        reach = Reach.of(context, write=False)
        return ToolOutput(
            await to_thread.run_sync(_listed, named, args.start_entry, reach, abandon_on_cancel=True)
        )


def _listed(named: Path, first: int, reach: Reach) -> str:
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
    if first > max(len(names), 1):
        raise ToolError(f"{named} has {len(names)} entries; start_entry {first} is past its end.")
    names.sort()
    lines: list[str] = []
    octets = 0
    for name, suffix in names[first - 1 : first - 1 + _LISTED]:
        line = printable(name) + suffix
        octets += len(line.encode()) + 1
        if lines and octets > _OCTETS:
            break
        lines.append(line)
    if not lines:
        return "(The folder is empty.)"
    last = first - 1 + len(lines)
    notes = [f"entries {first}-{last} of {len(names)}"] if len(lines) < len(names) else []
    if last < len(names):
        notes.append(f"go on with start_entry={last + 1}")
    if cut:
        notes.append(f"the folder has more than these {_SEEN:,}: find others by a pattern, with bash (find)")
    return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


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
