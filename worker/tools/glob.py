"""`glob`: find files by the pattern of their path, the newest first."""

from __future__ import annotations

import heapq
import os
from typing import TYPE_CHECKING, Annotated, Final

import anyio
from pydantic import Field

from worker.files.naming import FilePath, absolute
from worker.glob_expressions import GlobError
from worker.globs import Selection, select, split_base
from worker.ripgrep import Listing, ripgrep
from worker.searching import Start, fitting, ignoring, is_hidden, nothing_found, start_at
from worker.tools.base import Access, Tool, ToolError, ToolInput, ToolOutput
from worker.tools.list_files import printable

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.base import ToolContext

_SHOWN: Final = 500
_OCTETS: Final = 64 * 2**20
_SORTED: Final = 20_000
"""Files whose times are looked at. One costs 2 µs, so above this that takes longer than the search."""


class GlobInput(ToolInput):
    """What the model gives."""

    pattern: Annotated[
        FilePath,
        Field(description="Such as src/**/*.py, *.{ts,tsx} (at any depth, having no slash) or docs/*.md."),
    ]
    path: FilePath = Field(
        default=".", description="The folder to search; the working directory if left out."
    )
    include_ignored: bool = Field(default=False, description="Also what .gitignore and the like exclude.")
    hidden: bool = Field(default=False, description="Also names that start with a dot.")


class Glob(Tool[GlobInput]):
    """See the module."""

    name = "glob"
    kind = "search"
    description = (
        "Find files whose path matches a pattern, newest first. Passes over ignored and hidden files unless "
        "told otherwise, and always over .git. To search in files use grep."
    )
    Input = GlobInput
    read_only = True

    def title(self, args: GlobInput) -> str:
        """The pattern and where."""
        return f"Find {args.pattern}" + (f" in {args.path}" if args.path != "." else "")

    def accesses(self, args: GlobInput, cwd: Path) -> list[Access]:
        """The folder that the search starts in, which the pattern may move, also out of `path`."""
        return [Access(_folder(args, cwd), write=False)]

    async def run(self, args: GlobInput, context: ToolContext) -> ToolOutput:
        """Raises ToolError for a bad pattern or folder."""
        try:
            selection = select(split_base(args.pattern)[1])
        except GlobError as e:
            raise ToolError(f"The pattern {args.pattern} cannot be read: {e}.") from e
        start = await anyio.to_thread.run_sync(start_at, _folder(args, context.cwd), context)
        if start.file is not None:
            raise ToolError(f"{start.folder / start.file} is a file. Give the folder to search.")
        hidden = args.hidden or selection.hidden
        arguments = [
            "--files",
            "--null",
            *ignoring(start, args.include_ignored, hidden),
            *selection.arguments,
        ]
        listing = await ripgrep(arguments, start.folder, context, _OCTETS)
        shown, found, by_time = await anyio.to_thread.run_sync(_matching, listing, selection, hidden, start)
        if not found:
            return ToolOutput(
                nothing_found("No files match.", args.include_ignored, hidden) + _told(listing),
                raw={"files": 0, "truncated": bool(listing.cut)},
            )
        lines = fitting([start.shown + printable(path) for path in shown])
        cut = found > len(lines)
        if cut:
            order = "the newest" if by_time else "the first by path, too many to sort by time"
            lines.append(f"[truncated: {len(lines)} of {found:,} files, {order}. Narrow the pattern or path]")
        return ToolOutput(
            "\n".join(lines) + _told(listing),
            raw={"files": found, "truncated": cut or bool(listing.cut)},
        )


def _folder(args: GlobInput, cwd: Path) -> Path:
    return absolute(split_base(args.pattern)[0], absolute(args.path, cwd))


def _told(listing: Listing) -> str:
    told = (
        f"\n[truncated: the search was ended {listing.cut}. Narrow the pattern or path]"
        if listing.cut
        else ""
    )
    return told + (f"\n[Not all could be read: {listing.skipped}]" if listing.skipped else "")


def _matching(
    listing: Listing, selection: Selection, hidden: bool, start: Start
) -> tuple[list[str], int, bool]:
    """Paths to show, relative to the start; how many match in all; whether the newest are first."""
    output = os.fsdecode(listing.output)
    paths = output.split("\0")[:-1]
    if selection.path is not None:
        paths = list(filter(selection.path.match, paths))
    # Most often none is, which is seen sooner in all of the output at once.
    if not hidden and (is_hidden(output) or "\0." in output):
        paths = [path for path in paths if not is_hidden(path)]
    if len(paths) > _SORTED:
        return heapq.nsmallest(_SHOWN, paths), len(paths), False
    folder = os.open(start.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        times = [_time(path, folder) for path in paths]
    finally:
        os.close(folder)
    newest = sorted(zip(times, paths, strict=True))[:_SHOWN]
    return [path for _, path in newest], len(paths), True


def _time(path: str, folder: int) -> int:
    """Nanoseconds, negative, so that ascending order has the newest first."""
    try:
        return -os.lstat(path, dir_fd=folder).st_mtime_ns
    except OSError:
        # It is gone since ripgrep saw it; last then.
        return 0


TOOL = Glob()
