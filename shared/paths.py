"""Where iac-code keeps things: configuration, sessions, logs, sockets.

Names the folders and makes them private; what is written in them is others' business.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_ROOT = 60
"""An `ipc://` path has at most 107 bytes; what comes below the runtime folder needs the rest."""


def config_dir() -> Path:
    """`IAC_CODE_CONFIG_DIR`, else `~/.iac-code`. Absolute; it need not exist."""
    named = os.environ.get("IAC_CODE_CONFIG_DIR")
    return Path(named).expanduser().absolute() if named else Path.home() / ".iac-code"


def sessions_dir() -> Path:
    """One folder a session."""
    return config_dir() / "sessions"


def logs_dir() -> Path:
    """The logs of the front and of its workers."""
    return config_dir() / "logs"


def make_private(folder: Path) -> None:
    """Make a folder and those missing above it, each with mode 0700. One that exists stays as it is."""
    for missing in reversed([folder, *folder.parents]):
        with contextlib.suppress(FileExistsError):
            missing.mkdir(mode=0o700)


def runtime_root(tell: Callable[[str], None] | None = None) -> Path:
    """The folder for sockets, made if need be: `$XDG_RUNTIME_DIR/iac-code`, else `/tmp/iac-code-<uid>`.

    Raises RuntimeError if someone else could be behind it: it is a symlink, no folder, or not ours. One that
    others may open is closed to them, and `tell` hears of it.
    """
    uid = os.getuid()
    root = _below_xdg(uid) or Path("/tmp") / f"iac-code-{uid}"
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise RuntimeError(f"{root} is not a folder, so iac-code cannot keep its sockets there: remove it.")
    if found.st_uid != uid:
        raise RuntimeError(
            f"{root} belongs to user id {found.st_uid}, not to you ({uid}), so iac-code does not use it: "
            "remove it, or set XDG_RUNTIME_DIR to a folder of yours."
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode != 0o700:
        root.chmod(0o700)
        if tell is not None:
            tell(f"{root} had mode {mode:o}; it is open to you alone now")
    return root


def _below_xdg(uid: int) -> Path | None:
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    root = Path(named) / "iac-code"
    try:
        ours = Path(named).stat().st_uid == uid
    except OSError:
        return None
    return root if ours and root.is_absolute() and len(os.fsencode(root)) <= _LONGEST_ROOT else None
