"""What `glob` and `grep` share: where a search starts, and how its results are shown."""

from __future__ import annotations

import os
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
_REPOSITORIES: Final = (".git", ".jj")
"""What ripgrep (15) takes for a repository's root, where it looks no further up for ignore files."""


@dataclass(frozen=True, slots=True)
class Start:
    """A resolved folder to search, or one file in it."""

    folder: Path
    file: str | None
    shown: str
    """What goes before a result's relative path: empty for the working directory, else ends in a slash."""
    rules: tuple[str, ...]
    """Arguments that say how far up ripgrep looks for ignore files."""


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
    # ripgrep passes over what it may not read, which here is all that was asked for.
    if not os.access(found, os.R_OK if file else os.R_OK | os.X_OK):
        raise ToolError(f"{named} cannot be read: permission denied.")
    cwd = resolve(context.cwd)
    relative = folder.relative_to(cwd) if folder.is_relative_to(cwd) else folder
    shown = "" if relative == Path() else f"{printable(str(relative)).rstrip('/')}/"
    return Start(folder, file, shown, _rules(folder, cwd))


def _rules(folder: Path, cwd: Path) -> tuple[str, ...]:
    """Ignore files count as git has them, up to the repository's root.

    Outside of one a `.gitignore` counts all the same, but none above the working directory: a person's home
    may ignore all that is in it.
    """
    above = (folder, *folder.parents)
    if any(os.path.exists(at / name) for at in above for name in _REPOSITORIES):
        return ()
    top = cwd if cwd in above else folder
    outer = any(os.path.exists(at / ".gitignore") for at in top.parents)
    return ("--no-require-git", "--no-ignore-parent") if outer else ("--no-require-git",)


def ignoring(start: Start, include_ignored: bool, hidden: bool) -> list[str]:
    """Arguments for what a search passes over.

    `.git` always, as an ignore file with `!` can bring hidden files back; others: see `is_hidden`.
    """
    return [
        "--glob=!.git",
        *start.rules,
        *(["--no-ignore"] if include_ignored else []),
        *(["--hidden"] if hidden else []),
    ]


def is_hidden(path: str) -> bool:
    """Whether a result is hidden below the start. Hidden files get past ripgrep by file types and by `!`."""
    return path.startswith(".") or "/." in path


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
