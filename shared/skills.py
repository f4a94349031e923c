"""Where skills lie: folders that each hold one folder a skill. Looks, and reads nothing.

The user's own are in the config dir. A project's are in `.iac-code/skills` or `.claude/skills` of the
working directory and of the folders above it, up to the root of its repository.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from shared.paths import config_dir

PROJECT_FOLDERS: Final = (Path(".iac-code", "skills"), Path(".claude", "skills"))


def user_skills() -> Path:
    """The folder of the user's own skills; it need not exist."""
    return config_dir() / "skills"


def skill_folders(cwd: Path) -> list[Path]:
    """Those that exist, the most general first: the user's, then from the repository's root down to `cwd`.

    Touches the disk: call it in a thread.
    """
    chain = [cwd]
    while not os.path.lexists(chain[-1] / ".git") and chain[-1].parent != chain[-1]:
        chain.append(chain[-1].parent)
    if not os.path.lexists(chain[-1] / ".git"):
        chain = [cwd]  # in no repository, so there is no telling whose the folders above are
    projects = [folder / skills for folder in reversed(chain) for skills in PROJECT_FOLDERS]
    return [folder for folder in (user_skills(), *projects) if os.path.isdir(folder)]
