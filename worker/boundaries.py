"""Where a session may work, and which files ask everywhere: the judgement of one path.

Paths are judged resolved: symlinks, `..`, dangling links and what does not exist yet are followed to
where the kernel would go. Nothing here opens a file or decides a call; `permissions` does that.
"""

from __future__ import annotations

import fnmatch
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from shared.paths import config_dir
from worker.sensitive_names import (
    CODE,
    COPY,
    DATA,
    DATA_FOLDERS,
    FOLDERS,
    HARMLESS,
    MANIFESTS,
    NAMES,
    PATTERNS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def resolve(path: Path) -> Path:
    """The absolute path without links that opening `path` would reach, whether or not it exists.

    A dangling link resolves to where its target would be; below the deepest folder that exists, the
    rest is taken as it is written. Touches the disk. Raises ValueError for a path with a NUL or with
    characters that no file name can have.
    """
    return Path(os.path.realpath(path))


def inside(resolved: Path, roots: Iterable[Path]) -> bool:
    """Whether a resolved path is one of the resolved `roots` or below one."""
    return any(resolved.is_relative_to(root) for root in roots)


def sensitive(resolved: Path, *, write: bool = False) -> str | None:
    """Why a file asks even inside the roots, as a phrase that follows its name; None where it does not.

    Sensitive is what holds secrets, and what runs by itself, by name or as a copy of such a file. Names are
    compared without case, since some file systems do. Terraform state counts (it holds secrets in the
    clear); `.env.example` and its like do not, nor do public keys, nor the `spill` folders in which sessions
    leave long outputs. What a `write` can turn into settings of git's asks only then. Touches the disk.
    """
    parts = tuple(part.lower() for part in resolved.parts)
    changed = _of_git(resolved, parts) if write else None
    return _by_parts(resolved, parts) or changed or _own(resolved)


def is_skill(resolved: Path, folders: Iterable[Path]) -> bool:
    """Whether a file belongs to one of the user's own skills, of these resolved folders, and holds no secret.

    They lie in our config dir, which is sensitive; but they are there to be read.
    """
    return inside(resolved, folders) and _by_parts(resolved, tuple(map(str.lower, resolved.parts))) is None


def _by_parts(resolved: Path, parts: tuple[str, ...]) -> str | None:
    name = parts[-1] if parts else ""
    reason = _by_name(name) or _in_git(resolved, parts) or _in_folder(parts)
    if reason is not None:
        return reason
    originals = tuple(_original(part) for part in parts)
    if originals == parts:
        return None
    copied = originals[-1]
    if copied != name:
        # Editors make hidden copies of files that are not: `.credentials.json.swp`.
        reason = _by_name(copied) or _by_name(copied.removeprefix("."))
    reason = reason or _in_git(resolved, originals) or _in_folder(originals)
    return reason and f"looks like a copy of what {reason}"


@functools.lru_cache(4096)
def _original(name: str) -> str:
    """The name of what a file of this name would be a copy of; the name itself if of none."""
    while found := COPY.fullmatch(name):
        name = found[found.lastindex or 0]
    return name


def _by_name(name: str) -> str | None:
    if HARMLESS.search(name):
        return None
    for reason, names in NAMES:
        if name in names:
            return reason
    if CODE.search(name):
        return None
    for reason, patterns in PATTERNS:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return reason
    return None


def _in_git(resolved: Path, parts: tuple[str, ...]) -> str | None:
    """Hooks and settings of a repository, of its submodules and worktrees, and of bare ones (`x.git`).

    A `.git` *file* counts too: it may send git to a folder with other settings, which run programs. A folder
    called `x.git` that has files checked out is none: git takes the `.git` in it.
    """
    for i, part in enumerate(parts):
        if not part.endswith(".git") or (part != ".git" and _checked_out(Path(*resolved.parts[: i + 1]))):
            continue
        below = parts[i + 1 :]
        if "hooks" in below:
            return "is run by git"
        if below and below[-1] in ("config", "config.worktree"):
            return "is git's own configuration"
        return "is a git repository itself" if not below and part == ".git" else None
    return None


def _checked_out(folder: Path) -> bool:
    """Whether git looks for a repository of this folder in its `.git`, and so never in the folder itself."""
    own = folder / ".git"
    # Of a file git reads on or gives up; a folder that lacks one of these it passes over.
    return os.path.isfile(own) or all(os.path.lexists(own / name) for name in ("HEAD", "objects", "refs"))


def _of_git(resolved: Path, parts: tuple[str, ...]) -> str | None:
    """Why a write may make git run something: by other settings, or as it makes a folder a repository.

    What makes a repository of a folder that is not called `.git` is HEAD, and its settings and hooks count
    then: so the second of the two asks, whichever it is. HEAD alone does not: commands name it as a revision.
    To git a HEAD or a setting may be a link, and that of HEAD may dangle.
    """
    name = parts[-1] if parts else ""
    if ".git" in parts[:-1]:
        return "is kept by git itself"
    if name == "commondir":
        return "tells git where its settings are"
    if name == "head" and _has_settings(resolved.parent) and not _checked_out(resolved.parent):
        return "makes its folder a git repository"
    for part, folder in zip(reversed(parts), resolved.parents, strict=False):
        if part not in ("config", "config.worktree", "hooks"):
            continue
        if os.path.lexists(folder / "HEAD") and not _checked_out(folder):
            return "is run by git" if part == "hooks" else "is git's own configuration"
    return None


def _has_settings(folder: Path) -> bool:
    """A folder called `config`, as many projects have one, is no setting of git's."""
    config = folder / "config"
    return os.path.lexists(folder / "hooks") or (os.path.lexists(config) and not os.path.isdir(config))


def _in_folder(parts: tuple[str, ...]) -> str | None:
    for reason, run in FOLDERS:
        if run[0] not in parts:
            continue
        for i in range(len(parts) - len(run) + 1):
            last = i + len(run) - 1
            if parts[i:last] == run[:-1] and fnmatch.fnmatchcase(parts[last], run[-1]):
                return reason
    if any(folder in parts[:-1] for folder in DATA_FOLDERS):
        name = parts[-1]
        if DATA.search(name) and name not in MANIFESTS and not HARMLESS.search(name):
            return "may hold secrets"
    return None


def _own(resolved: Path) -> str | None:
    own = resolve(config_dir())
    if not resolved.is_relative_to(own):
        return None
    below = resolved.relative_to(own).parts
    if len(below) >= 3 and below[0] == "sessions" and below[2] == "spill":
        return None
    return "belongs to iac-code itself"
