"""Reading a bash command before it runs: what it runs, which paths it names, whether it only reads.

Read from the syntax tree of tree-sitter-bash; nothing is run and the disk is not touched. It never
raises and is bounded in time. What it cannot tell it says: a decision must not rest on a guess. A command
that means to hide what it does can (`python -c`); against that there is the sandbox.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.shell_findings import NamedPath, UnreadableError
from worker.shell_walk import Walk

if TYPE_CHECKING:
    from pathlib import Path

    from worker.shell_sweeps import Sweep

__all__ = ["NamedPath", "Reading", "read"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What can be told of a command.

    `unreadable` says why it could not be read whole, and is "" for one that was. `commands` are the words
    of each simple command, those that others run (`sudo`, `xargs`, `bash -c`) too, after `NAME=` for each
    variable that is set for it. `scopes` names for each
    what an "always" covers, None where that is nothing but this command. `unresolved` are words that
    only the running shell knows. `sweeps` are searches through folders by commands that only read.
    """

    unreadable: str
    commands: tuple[tuple[str, ...], ...]
    scopes: tuple[str | None, ...]
    paths: tuple[NamedPath, ...]
    unresolved: tuple[str, ...]
    read_only: bool
    sweeps: tuple[Sweep, ...]

    @property
    def parsed(self) -> bool:
        """The whole command was read."""
        return not self.unreadable


def read(command: str, cwd: Path) -> Reading:
    """Read a command that would run in `cwd` (absolute)."""
    walk = Walk()
    try:
        walk.nested(command, frozenset((str(cwd),)), 0)
    except UnreadableError as e:
        walk.unreadable = str(e)
    found = walk.found
    return Reading(
        walk.unreadable,
        tuple(found.commands),
        tuple(found.scopes),
        tuple(found.paths),
        tuple(found.unresolved),
        found.read_only and not walk.unreadable and bool(found.commands),
        tuple(found.sweeps),
    )
