"""`grep`: find lines, or the files that hold them, by a regular expression."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import anyio
from pydantic import Field

from worker.boundaries import resolve, sensitive
from worker.complaints import explain
from worker.expressions import Expression, first_try, next_try
from worker.files.naming import FilePath, absolute
from worker.glob_expressions import GlobError
from worker.globs import MAGIC, Selection, exclude, select, split_base
from worker.output import visible
from worker.ripgrep import Listing, SearchError, ripgrep
from worker.searching import Start, fitting, ignoring, is_hidden, nothing_found, start_at
from worker.tools.base import Access, Tool, ToolError, ToolInput, ToolOutput
from worker.tools.list_files import printable

if TYPE_CHECKING:
    from worker.tools.base import ToolContext

_OCTETS: Final = 8 * 2**20
_COLUMNS: Final = 500
_BINARY: Final = re.compile(r": (?:WARNING: stopped searching )?binary file ")


class GrepInput(ToolInput):
    """What the model gives."""

    pattern: Annotated[str, Field(min_length=1, description="Regular expression in Rust's syntax.")]
    path: FilePath = Field(default=".", description="File or folder; the working directory if left out.")
    glob: Annotated[
        FilePath | None,
        Field(description="Only files that match, such as *.py or src/**/*.ts; !*.md for all but those."),
    ] = None
    case_insensitive: bool = False
    output_mode: Annotated[
        Literal["files_with_matches", "content"],
        Field(description="Paths only, or path:line:text of each line."),
    ] = "files_with_matches"
    max_results: Annotated[int, Field(ge=1, le=5000, description="Files or lines to show.")] = 250
    include_ignored: bool = Field(default=False, description="Also what .gitignore and the like exclude.")
    hidden: bool = Field(default=False, description="Also names that start with a dot.")


@dataclass(slots=True)
class _Matches:
    """What one search found: by path its lines as `number:text`; none where only paths were asked for."""

    files: dict[str, list[bytes]] = field(default_factory=dict)
    binary: int = 0

    @property
    def count(self) -> int:
        return sum(len(lines) or 1 for lines in self.files.values())


class Grep(Tool[GrepInput]):
    """See the module."""

    name = "grep"
    kind = "search"
    description = (
        "Search files by regular expression, sorted by path. Passes over binary, ignored and hidden files "
        "unless told otherwise, and always over .git. Each line is searched by itself, unless the pattern "
        "names a line feed or has (?s). To find files by name use glob."
    )
    Input = GrepInput
    read_only = True

    def title(self, args: GrepInput) -> str:
        """The pattern and where."""
        where = "".join(f" in {place}" for place in (args.path, args.glob) if place and place != ".")
        return f"Search for {args.pattern[:100]}{where}"

    def accesses(self, args: GrepInput, cwd: Path) -> list[Access]:
        """What is searched."""
        return [Access(absolute(args.path, cwd), write=False)]

    async def run(self, args: GrepInput, context: ToolContext) -> ToolOutput:
        """Raises ToolError for a bad pattern, glob or path."""
        start = await anyio.to_thread.run_sync(start_at, absolute(args.path, context.cwd), context)
        selection = await anyio.to_thread.run_sync(_selection, args.glob, start)
        hidden = args.hidden or selection.hidden
        arguments = [*_arguments(args), *ignoring(start, args.include_ignored, hidden), *selection.arguments]
        listing = await _search(args.pattern, arguments, start, context)
        read = _read_files if args.output_mode == "files_with_matches" else _read_lines
        matches = await anyio.to_thread.run_sync(read, listing.output, selection, hidden or bool(start.file))
        return await anyio.to_thread.run_sync(_result, args, matches, listing, start, hidden)


async def _search(pattern: str, arguments: list[str], start: Start, context: ToolContext) -> Listing:
    """A pattern that ripgrep refuses only as it was given ends at once, so another try costs little."""
    expression = first_try(pattern)
    while True:
        given = [*arguments, *expression.flags, f"--regexp={expression.text}", "--", f"./{start.file or ''}"]
        try:
            return await ripgrep(given, start.folder, context, _OCTETS)
        except SearchError as e:
            if "impossible to match" in e.told:
                raise ToolError("The pattern has a NUL, which only binary files hold: use bash.") from e
            following = next_try(expression, e.told)
            if following is None and expression.text not in (pattern, f"{pattern}\n"):
                # What is wrong is told of the pattern as it was written.
                following = Expression(pattern.replace("\0", r"\x00"), expression.flags)
                pattern = following.text
            if following is None:
                explained = explain(pattern, e.told)
                raise ToolError(f"The pattern is not valid: {explained}" if explained else str(e)) from e
            expression = following


def _selection(glob: str | None, start: Start) -> Selection:
    """Of a file that was named itself nothing is left to select."""
    if glob is None or start.file is not None:
        return Selection((), None, hidden=False)
    pattern = _from_folder(glob.removeprefix("!"), start.folder)
    try:
        if glob.startswith("!"):
            return exclude(pattern)
        return select(pattern.lstrip("/") if "/" not in pattern[1:] else pattern.removeprefix("/"))
    except GlobError as e:
        raise ToolError(f"The glob {glob} cannot be read: {e}.") from e


def _from_folder(pattern: str, folder: Path) -> str:
    """An absolute pattern made relative to the folder that is searched; others as they are. Blocks.

    One that only starts with a slash, as in ignore files, is relative to that folder already.
    """
    base, rest = split_base(pattern)
    named = absolute(base, folder)
    if base in ("", "/") or not base.startswith(("/", "~")):
        return pattern
    found = resolve(named)
    if found.is_relative_to(folder):
        below = MAGIC.sub(r"\\\g<0>", str(found.relative_to(folder)))
        return f"./{below}/{rest}"
    if found != Path("/") and folder.is_relative_to(found):
        raise ToolError(
            f"The glob {pattern} starts in {found}, above {folder}, which is searched. Give it relative to "
            "that folder, or search from higher up by `path`."
        )
    return pattern


def _arguments(args: GrepInput) -> list[str]:
    arguments = ["--null", "--with-filename"]
    if args.case_insensitive:
        arguments.append("--ignore-case")
    if args.output_mode == "files_with_matches":
        return [*arguments, "--files-with-matches"]
    bounds = [f"--max-columns={_COLUMNS}", "--max-columns-preview", f"--max-count={args.max_results + 1}"]
    return [*arguments, "--line-number", "--no-heading", *bounds]


def _wanted(path: str, selection: Selection, hidden: bool) -> bool:
    return (hidden or not is_hidden(path)) and (
        selection.path is None or selection.path.match(path) is not None
    )


def _read_files(output: bytes, selection: Selection, hidden: bool) -> _Matches:
    paths = (path[2:] for path in os.fsdecode(output).split("\0")[:-1])
    return _Matches({path: [] for path in paths if _wanted(path, selection, hidden)})


def _read_lines(output: bytes, selection: Selection, hidden: bool) -> _Matches:
    """Lines are `path NUL number:text`. A piece without NUL is the start of a name that has a line feed."""
    matches = _Matches()
    begun = b""
    for line in output.split(b"\n")[:-1]:
        name, found, rest = line.partition(b"\0")
        if not found:
            if _BINARY.search(os.fsdecode(line)):
                matches.binary += 1
            else:
                begun += line + b"\n"
            continue
        path, begun = os.fsdecode(begun + name)[2:], b""
        lines = matches.files.get(path)
        if lines is None:
            if not _wanted(path, selection, hidden):
                continue
            lines = matches.files[path] = []
        lines.append(rest)
    return matches


def _result(args: GrepInput, matches: _Matches, listing: Listing, start: Start, hidden: bool) -> ToolOutput:
    """Only what is shown is judged, as judging a path costs more than finding it."""
    # A folder or file that asks everywhere was asked for by its own name; else such files are passed over.
    permitted = sensitive(start.folder / (start.file or "")) is not None
    shown: list[str] = []
    secret, found = 0, matches.count
    for path in sorted(matches.files):
        if len(shown) > args.max_results:
            break
        lines = matches.files[path]
        if not permitted and sensitive(start.folder / path) is not None:
            secret += 1
            found -= len(lines) or 1
            continue
        name = start.shown + printable(path)
        shown += [f"{name}:{_text(line)}" for line in lines] or [name]
    notes = []
    fit = fitting(shown[: args.max_results])
    cut = len(shown) > len(fit)
    unit = "files" if args.output_mode == "files_with_matches" else "lines"
    if listing.cut:
        notes.append(f"truncated: the search was ended {listing.cut}. Narrow the pattern, path or glob")
    if cut:
        notes.append(f"truncated: the first {len(fit)} of at least {found:,} {unit}")
    if secret:
        notes.append(f"{secret} files that may hold secrets are not shown; name one as path to search it")
    if matches.binary:
        notes.append(f"binary files that match: {matches.binary}")
    if listing.skipped:
        notes.append(f"not all could be read: {listing.skipped}")
    if not fit:
        fit = [nothing_found("No matches.", args.include_ignored, hidden or start.file is not None)]
    text = "\n".join([*fit, *(f"[{note}]" for note in notes)])
    return ToolOutput(text, raw={unit: found, "truncated": bool(listing.cut) or cut})


def _text(line: bytes) -> str:
    return visible(line.decode(errors="replace").rstrip("\r"))


TOOL = Grep()
