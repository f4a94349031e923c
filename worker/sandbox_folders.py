"""Which folders besides its own a session's commands may write: devices, caches of tools, git's own place.

Nothing here is a place that `boundaries` guards: a folder that holds credentials or what runs by itself is
not in the list, and a setting of the user's is needed to add it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worker.boundaries import resolve, sensitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LONGEST_POINTER: Final = 8192

DEVICES: Final = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),
    *("/dev/ptmx", "/dev/pts"),  # programs that run others on a terminal of their own: script, pytest
    "/dev/shm",  # locks of Python's multiprocessing, memory of browsers
)

CACHES: Final[tuple[tuple[str, str], ...]] = (
    # Below the home folder, and the program that would make it; "" is many programs'.
    (".cache", ""),
    (".npm", "npm"),
    (".yarn/berry", "yarn"),
    (".local/share/pnpm", "pnpm"),
    (".local/state/pnpm", "pnpm"),
    (".bun/install/cache", "bun"),
    (".cargo/registry", "cargo"),
    (".cargo/git", "cargo"),
    ("go/pkg", "go"),
    (".m2/repository", "mvn"),
    (".gradle/caches", "gradle"),
    (".gradle/daemon", "gradle"),
    (".gradle/native", "gradle"),
    (".gradle/wrapper", "gradle"),
    (".ivy2/cache", "sbt"),
    (".nuget/packages", "dotnet"),
    (".local/share/NuGet", "dotnet"),
    (".bundle/cache", "bundle"),
    (".hex", "mix"),
    (".terraform.d", "terraform"),
    (".kube/cache", "kubectl"),
    (".docker/buildx", "docker"),
    (".ansible/tmp", "ansible"),
)
_CACHE_VARIABLES: Final = (
    *("XDG_CACHE_HOME", "npm_config_cache", "YARN_CACHE_FOLDER", "PIP_CACHE_DIR", "UV_CACHE_DIR"),
    *("GOCACHE", "GOMODCACHE", "CARGO_TARGET_DIR", "CCACHE_DIR", "SCCACHE_DIR", "PRE_COMMIT_HOME"),
    *("TF_PLUGIN_CACHE_DIR", "HELM_CACHE_HOME", "KUBECACHEDIR", "NUGET_PACKAGES", "ANSIBLE_LOCAL_TEMP"),
)
"""Variables by which users move caches elsewhere; each holds a folder."""


def caches(environ: Mapping[str, str]) -> Iterator[Path]:
    """The caches, resolved. Those of installed programs are made, since commands may not make them.

    Touches the disk: for a thread.
    """
    home = Path.home()
    for name, program in CACHES:
        folder = home / name
        if not folder.is_dir() and (not program or shutil.which(program, path=environ.get("PATH"))):
            # A home that cannot be written has no caches.
            with contextlib.suppress(OSError):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield from _harmless(folder, home)
    for variable in _CACHE_VARIABLES:
        if os.path.isabs(environ.get(variable, "")):
            yield from _harmless(Path(environ[variable]), home)


def _harmless(folder: Path, home: Path) -> Iterator[Path]:
    """The folder, resolved, unless the home folder lies in it or it is one that is guarded."""
    found = resolve(folder)
    if found.is_dir() and not resolve(home).is_relative_to(found) and sensitive(found) is None:
        yield found


def worktree_folders(root: Path) -> Iterator[Path]:
    """Where git keeps the commits of a linked worktree: in its repository, which lies elsewhere.

    Not the repository's hooks and settings. Believed only if the repository points back, since the
    pointer in the worktree may be anybody's work. Touches the disk: for a thread.
    """
    pointer = _read_line(root / ".git")
    if not pointer.startswith("gitdir: "):
        return
    own = resolve(root / pointer.removeprefix("gitdir: "))
    common = resolve(own / (_read_line(own / "commondir") or "."))
    if own.parent != common / "worktrees" or resolve(Path(_read_line(own / "gitdir"))) != root / ".git":
        return
    yield own
    for name in ("objects", "refs", "logs"):
        if resolve(common / name) == common / name:
            yield common / name


def _read_line(path: Path) -> str:
    """A small regular file's first line; empty where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        text = os.read(fd, _LONGEST_POINTER).decode(errors="surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(fd)
    return text.partition("\n")[0] if "\0" not in text else ""
