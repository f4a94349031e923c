"""Paths as a call gives them. Pure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

if TYPE_CHECKING:
    from pathlib import Path


def _usable(path: str) -> str:
    if "\0" in path:
        raise ValueError("a path has no NUL character")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError("the path has characters that no file name can have") from None
    return path


FilePath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_usable)]
"""The type of a tool's path input: never empty, and always one that the system can be asked for."""


def absolute(path: str, cwd: Path) -> Path:
    """The absolute path for one that a call gives: `~` is the home folder, the rest is below `cwd`."""
    # Not Path.expanduser, which raises for a user that does not exist.
    return cwd / os.path.expanduser(path)
