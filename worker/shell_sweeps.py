"""Searches through folders: which files a command reads without naming them.

Only for commands that are to run unasked because they only read: a search through a folder must not show
what reading the same file by its name asks for.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worker.boundaries import inside, resolve, sensitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.shell_words import Word

_MOST: Final = 20_000
"""Names that are looked at; about 0.1 s."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A search: through `paths` (absolute) as far as they are there, through `folders` if none of them is."""

    paths: tuple[str, ...]
    folders: tuple[str, ...]
    hidden: bool
    """It looks at names that start with a dot too."""
    follows: bool
    """It goes where links lead."""


def searches(program: str, argv: Sequence[Word], *, piped: bool) -> tuple[bool, bool] | None:
    """Whether a command searches through folders: None, or whether in hidden ones, and whether after links.

    `piped`: it has an input.
    """
    texts = [word.text for word in argv[1:]]
    if program == "rg":
        if piped and not any("/" in text or text == "." for text in texts):
            return None
        return _any(texts, r"-\w*[u.]|--hid|--unr"), _any(texts, r"-\w*L|--fol")
    if program in ("grep", "egrep", "fgrep") and _any(
        texts, r"-\w*[rR]|--(deref|recur)|--directories=rec|-d"
    ):
        return True, _any(texts, r"-\w*R|--deref")
    if program == "diff" and _any(texts, r"-\w*r|--rec"):
        return True, True
    return None


def guarded_file(sweep: Sweep, cwd: Path) -> str | None:
    """Why a search should not run unasked, as a sentence; None if it may. Looks at the disk: for a thread."""
    left = _MOST
    root = resolve(cwd)
    there = [path for path in sweep.paths if os.path.lexists(path)]
    for start in there or sweep.folders:
        for folder, folders, files in os.walk(start):
            # What git itself keeps is shown by git's own commands.
            folders[:] = [n for n in folders if n != ".git" and (sweep.hidden or not n.startswith("."))]
            files = [name for name in files if sweep.hidden or not name.startswith(".")]
            left -= len(folders) + len(files)
            if left < 0:
                return f"bash searches more files below {start} than can be looked at."
            for name in (*files, *folders):
                path = Path(folder, name)
                found = resolve(path) if sweep.follows and path.is_symlink() else path
                reason = sensitive(found)
                if reason is not None:
                    return f"bash searches {path}, which {reason}."
                if found is not path and not inside(found, (root,)):
                    return f"bash searches {found}, outside the session's folders, through a link."
    return None


def _any(texts: Sequence[str], pattern: str) -> bool:
    return any(re.match(pattern, text) for text in texts)
