"""What is known of a session without its history: `meta.json` in its folder.

Only the process that holds the session's lock writes it; anyone may read it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from pydantic_core import from_json, to_json

from shared.durable import NoRegularFile, read_file
from shared.plain import plain

if TYPE_CHECKING:
    from pathlib import Path

META: Final = "meta.json"
HISTORY: Final = "history.jsonl"
"""Its name is here: the front, which lists sessions, need not know what is in it."""
FORMAT_VERSION: Final = 1
"""Of the history, written in each session's meta; a session of a later version is refused with a sentence."""


class Meta(BaseModel):
    """A session as lists show it and as it is opened again."""

    model_config = ConfigDict(frozen=True)

    version: int = FORMAT_VERSION
    session_id: str
    cwd: str
    """Absolute and resolved."""
    title: str | None = None
    created: FiniteFloat
    updated: FiniteFloat
    """Seconds since 1970, UTC, both."""
    options: dict[str, str] = Field(default_factory=dict)
    """`mode`, `model`, `thinking`."""
    directories: list[str] = Field(default_factory=list)
    """additionalDirectories, absolute."""
    mcp_servers: list[str] = Field(default_factory=list)
    """Names of the MCP servers that the client gave; what else it said of them holds secrets."""
    parent: str | None = None
    """The session that it was forked from."""
    closed: bool = False
    turn: str | None = None
    """The turn that runs, or that a front which died left open."""
    epoch: int = 0
    """The incarnation of the worker that ran last."""

    def encode(self) -> bytes:
        """The content of `meta.json`."""
        return to_json(plain(self.__dict__))


def read_meta(folder: Path) -> Meta:
    """The meta of a session's folder. One that is broken or missing is rebuilt from what can be read.

    A lost `cwd` becomes a path that does not exist, so that the session can be opened anywhere.
    Raises FileNotFoundError or NotADirectoryError where no session is, OSError for what cannot be read.
    """
    try:
        data = read_file(folder / META)
    except (FileNotFoundError, NoRegularFile):
        data = b""
    try:
        meta = Meta.model_validate_json(data)
    except ValidationError:
        meta = _rebuilt(data, folder)
    # The folder's name is the id: a folder that was copied by hand is a session of its own.
    return meta if meta.session_id == folder.name else meta.model_copy(update={"session_id": folder.name})


def _rebuilt(data: bytes, folder: Path) -> Meta:
    changed = (folder / HISTORY).stat().st_mtime
    lost: dict[str, Any] = {
        "session_id": folder.name,
        "cwd": str(folder / "lost-cwd"),
        "created": changed,
        "updated": changed,
    }
    meta = Meta.model_validate(lost)
    found = None
    with contextlib.suppress(ValueError):
        found = from_json(data, allow_partial=True)
    for name, value in found.items() if isinstance(found, dict) else ():
        with contextlib.suppress(ValidationError):
            meta = Meta.model_validate({**meta.__dict__, name: value})
    return meta
