"""What in a command's output was the sandbox's doing. Guesses from text, and says only what it can check.

Landlock refuses with the same error as a file's mode does, so what a refused path is asked is whether this
process, which is not confined, might have written it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worker.boundaries import inside, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.sandbox import Confinement

_NO_FILES: Final = (Path("/dev/tcp"), Path("/dev/udp"))
"""Names of bash's for the network."""
_LINES: Final = 400
_SHOWN: Final = 3
_REFUSED: Final = re.compile(
    r"permission denied|operation not permitted|\beacces\b|\beperm\b|permissionerror|accessdenied"
    r"|cross-device link|\bexdev\b|\berrno 13\b|os error 13\b",
    re.IGNORECASE,
)
_NO_NEW_PRIVILEGES: Final = re.compile(r"no.new.privileges", re.IGNORECASE)
_QUOTED: Final = re.compile(r"""["'`‘“]([^"'`’”]+)["'`’”]""")
_AGAIN: Final = "If it is needed, call bash again with unsandboxed: true; the user is then asked"


def explain(output: str, confinement: Confinement, cwd: Path, failed: bool) -> list[str]:
    """What the sandbox refused, as a phrase for the result; none if nothing shows that it did.

    Looks at the disk: for a thread.
    """
    lines = output.splitlines()[-_LINES:]
    refusals = [line for line in lines if _REFUSED.search(line)]
    paths = dict.fromkeys(
        str(path) for line in refusals for path in _paths(line, cwd) if _refused_here(path, confinement)
    )
    if paths:
        named = ", ".join(list(paths)[:_SHOWN]) + (" and others" if len(paths) > _SHOWN else "")
        return [f"the sandbox refused this command {named}, outside what it may write. {_AGAIN}"]
    if any(_NO_NEW_PRIVILEGES.search(line) for line in lines):
        return [f"sudo and the like do not work in the sandbox. {_AGAIN}"]
    if refusals and failed and not confinement.network:
        return [f"the sandbox keeps commands from TCP, as the user's settings want. {_AGAIN}"]
    return []


def _paths(line: str, cwd: Path) -> Iterator[Path]:
    """What in a line may be a path; below `cwd` where it is relative, though the command may have moved."""
    program, colon, rest = line.partition(":")
    if colon and os.path.isfile(program) and os.access(program, os.X_OK):
        line = rest
    words = [*_QUOTED.findall(line), *(word.strip("\"'`‘’“”()[],;:") for word in line.split())]
    for word in dict.fromkeys(words):
        for text in (word, *word.split(":")):
            if "/" in text or text.startswith("."):
                try:
                    yield resolve(cwd / os.path.expanduser(text))
                except (ValueError, OSError):
                    continue


def _refused_here(path: Path, confinement: Confinement) -> bool:
    if path.parent == path or inside(path, (*confinement.writable, *_NO_FILES)):
        return False
    nearest = next((folder for folder in (path, *path.parents) if folder.exists()), path)
    return os.access(nearest, os.W_OK)
