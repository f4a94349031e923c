"""Where a session may work, and which files ask everywhere: the judgement of one path.

Paths are judged resolved: symlinks, `..`, dangling links and what does not exist yet are followed to
where the kernel would go. Nothing here opens a file or decides a call; `permissions` does that.
"""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import TYPE_CHECKING

from shared.paths import config_dir
from worker.sensitive_names import FOLDERS, HARMLESS, NAMES, PATTERNS

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


def sensitive(resolved: Path) -> str | None:
    """Why a file asks even inside the roots, as a phrase that follows its name; None where it does not.

    Sensitive is what holds secrets, and what runs by itself. Names are compared without case, since
    some file systems do. Terraform state counts (it holds secrets in the clear); `.env.example` and its
    like do not, nor do public keys, nor the `spill` folders in which sessions leave long outputs.
    """
    parts = tuple(part.lower() for part in resolved.parts)
    name = parts[-1] if parts else ""
    return _by_name(name) or _in_git(parts) or _in_folder(parts) or _own(resolved)


def is_skill(resolved: Path, folders: Iterable[Path]) -> bool:
    """Whether a file belongs to one of the user's own skills, of these resolved folders, and holds no secret.

    They lie in our config dir, which is sensitive; but they are there to be read.
    """
    parts = tuple(part.lower() for part in resolved.parts)
    secret = _by_name(parts[-1] if parts else "") or _in_git(parts) or _in_folder(parts)
    return secret is None and inside(resolved, folders)


def _by_name(name: str) -> str | None:
    if HARMLESS.search(name):
        return None
    for reason, names in NAMES:
        if name in names:
            return reason
    for reason, patterns in PATTERNS:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return reason
    return None


def _in_git(parts: tuple[str, ...]) -> str | None:
    """Hooks and settings of a repository, of its submodules and worktrees, and of bare ones (`x.git`).

    A `.git` *file* counts too: it may send git to a folder with other settings, which run programs.
    """
    at = next((i for i, part in enumerate(parts) if part.endswith(".git")), None)
    if at is None:
        return None
    below = parts[at + 1 :]
    if "hooks" in below:
        return "is run by git"
    if below and below[-1] in ("config", "config.worktree"):
        return "is git's own configuration"
    return "is a git repository itself" if not below and parts[at] == ".git" else None


def _in_folder(parts: tuple[str, ...]) -> str | None:
    for reason, run in FOLDERS:
        if run[0] in parts and any(
            parts[i : i + len(run)] == run for i, part in enumerate(parts) if part == run[0]
        ):
            return reason
    return None


def _own(resolved: Path) -> str | None:
    own = resolve(config_dir())
    if not resolved.is_relative_to(own):
        return None
    below = resolved.relative_to(own).parts
    if len(below) >= 3 and below[0] == "sessions" and below[2] == "spill":
        return None
    return "belongs to iac-code itself"
