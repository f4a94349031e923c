"""What a session knows of files: the stamps in its results, and what this process wrote since.

The stamp of a write that was cancelled is in no result, and calls that run at once have older ones.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from worker.tools.base import FileStamp

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.base import ToolContext

_written: dict[tuple[Path, Path], str] = {}
"""By session folder and file, what this process wrote last and the session has not read since."""


def key_of(path: Path) -> str:
    """The name under which the stamp of a resolved path is kept: the path, unless that is no text.

    History and protocol hold text only; no path looks like the other form.
    """
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"octets:{quote_from_bytes(os.fsencode(path))}"
    return text


def stamp(path: Path, digest: str) -> FileStamp:
    """The stamp of a resolved path, for a result."""
    return FileStamp(key_of(path), digest)


def known(context: ToolContext, path: Path) -> set[str]:
    """The stamps by which the session knows a resolved path; none if it never read it."""
    stamps = (context.stamps.get(key_of(path)), _written.get((context.session_dir, path)))
    return {one for one in stamps if one is not None}


def wrote(context: ToolContext, path: Path, digest: str) -> None:
    """The session knows what it just wrote, whether or not the result comes to be recorded."""
    _written[context.session_dir, path] = digest


def forget_written(context: ToolContext, path: Path) -> None:
    """What a session has read is what it knows from then on, and not what it wrote before."""
    _written.pop((context.session_dir, path), None)
