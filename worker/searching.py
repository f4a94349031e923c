"""What `glob` and `grep` share: where a search starts, and how its results are shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worker.boundaries import resolve
from worker.files.opening import Reach
from worker.tools.base import ToolError
from worker.tools.list_files import printable

if TYPE_CHECKING:
    from worker.tools.base import ToolContext

_OCTETS: Final = 100_000
"""Of one search's results, as a model should read."""


@dataclass(frozen=True, slots=True)
class Start:
    """A resolved folder to search, or one file in it."""

    folder: Path
    file: str | None
    shown: str
    """What goes before a result's relative path: empty for the working directory, else ends in a slash."""


def start_at(named: Path, context: ToolContext) -> Start:
    """Judge once more and look at what is there. Blocks. Raises ToolError."""
    found = resolve(named)
    if ".git" in found.parts:
        raise ToolError(f"{named} is in a .git folder, which is never searched. Use git through bash.")
    Reach.of(context, write=False).check(found)
    if found.is_file():
        folder, file = found.parent, found.name
    elif found.is_dir():
        folder, file = found, None
    else:
        raise ToolError(f"{named} is no folder and no regular file, or does not exist.")
    cwd = resolve(context.cwd)
    relative = folder.relative_to(cwd) if folder.is_relative_to(cwd) else folder
    shown = "" if relative == Path() else f"{printable(str(relative)).rstrip('/')}/"
    return Start(folder, file, shown)


def ignoring(include_ignored: bool, hidden: bool) -> list[str]:
    """Arguments for what a search passes over. `.git` is always passed over."""
    return [
        *(["--glob=!.git"] if hidden else []),
        *(["--no-ignore"] if include_ignored else []),
        *(["--hidden"] if hidden else []),
    ]


def fitting(lines: list[str]) -> list[str]:
    """The first of the lines, as many as a model should read."""
    size = 0
    for i, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > _OCTETS:
            return lines[:i]
    return lines


def nothing_found(what: str, include_ignored: bool, hidden: bool) -> str:
    """The text of an empty result, with what was not looked at."""
    passed = [
        *([] if include_ignored else ["ignored files (include_ignored)"]),
        *([] if hidden else ["hidden files (hidden)"]),
    ]
    return what + (f" Not searched: {' and '.join(passed)}." if passed else "")
