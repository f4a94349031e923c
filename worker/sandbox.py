"""A session's sandbox: where the commands of `bash`, and all that they start, may write.

Below the session's folders, its scratch folder (`TMPDIR`), caches and what settings name; and for one call
the places that its permission named. Reading is not restricted, nor are modes, owners and times of files,
which Landlock does not know, nor what a command asks others to do (the container daemon, the init system).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from worker import landlock
from worker.boundaries import inside, resolve
from worker.sandbox_folders import DEVICES, caches, worktree_folders

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from shared.settings import SandboxSetting
    from worker.scratch import Scratch
    from worker.tools.base import Access

UNAVAILABLE: Final = (
    "there is no sandbox: it needs Landlock of Linux 6.2 or later, which this kernel lacks or has switched "
    "off. So commands may write wherever you may; all else that asks before a command still does"
)
NETWORK_OPEN: Final = (
    "the settings keep commands from the network, but that needs Landlock of Linux 6.7 or later, which this "
    "kernel lacks. So commands can reach it"
)


@dataclass(frozen=True, slots=True)
class Confinement:
    """What one call is held to. `rules` is a descriptor for `landlock.start_restricted`."""

    rules: int
    writable: tuple[Path, ...]
    network: bool


class Sandbox:
    """The sandbox of one session. `roots` are resolved."""

    def __init__(
        self, setting: SandboxSetting, roots: tuple[Path, ...], scratch: Scratch, environ: Mapping[str, str]
    ) -> None:
        self._setting = setting
        self._roots = roots
        self._environ = environ
        self._writable: tuple[Path, ...] = ()
        self._scratch = scratch
        self._untold = _shortcomings(setting)

    @property
    def active(self) -> bool:
        """Commands are confined."""
        return self._setting.enabled and landlock.abi() >= landlock.USABLE

    def shortcomings(self) -> list[str]:
        """What the settings want and this kernel cannot do, as phrases; each is given once."""
        untold, self._untold = self._untold, []
        return untold

    def environment(self) -> dict[str, str]:
        """Variables for commands: where temporary files go. With and without the sandbox the same place."""
        names = ("TMPDIR", *(name for name in ("TMP", "TEMP", "TEMPDIR") if name in self._environ))
        return dict.fromkeys(names, str(self._scratch.path))

    @contextlib.asynccontextmanager
    async def confine(
        self, permitted: Iterable[Access], *, unsandboxed: bool
    ) -> AsyncIterator[Confinement | None]:
        """For the start of a command, in the body; None where it is not confined. Raises OSError.

        `permitted` are the accesses that were allowed: what is written outside is opened for this call,
        a folder with all below it, of a file the folder that it lies in, since most programs write a file
        by making another beside it.
        """
        made = await to_thread.run_sync(self._confinement, tuple(permitted), unsandboxed)
        try:
            yield made
        finally:
            if made is not None:
                os.close(made.rules)

    def _confinement(self, permitted: tuple[Access, ...], unsandboxed: bool) -> Confinement | None:
        self._scratch.make()
        if unsandboxed or not self.active:
            return None
        if not self._writable:
            self._writable = tuple(dict.fromkeys(self.folders()))
        outside = [a.path for a in permitted if a.write and not inside(a.path, self._writable)]
        writable = (*self._writable, *map(_nearest_folder, outside))
        network = self._setting.network or landlock.abi() < landlock.NETWORK
        return Confinement(landlock.ruleset(writable, network=network), writable, network)

    def folders(self) -> Iterable[Path]:
        """What every command may write, resolved; some need not exist. Makes missing caches. Blocks."""
        yield from self._roots
        yield self._scratch.path
        yield from map(Path, DEVICES)
        yield from caches(self._environ)
        yield from worktree_folders(self._roots[0])
        yield from (resolve(Path(named).expanduser()) for named in self._setting.writable)

    async def close(self) -> None:
        """Remove the scratch folder; call it when no command runs any more."""
        await to_thread.run_sync(self._scratch.remove)


def _nearest_folder(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _shortcomings(setting: SandboxSetting) -> list[str]:
    if not setting.enabled:
        return []
    if landlock.abi() < landlock.USABLE:
        return [UNAVAILABLE]
    return [] if setting.network or landlock.abi() >= landlock.NETWORK else [NETWORK_OPEN]
