"""`python -m worker.checkup`: what a worker finds in this installation, for `iac-code doctor`.

Prints one JSON object: `ripgrep`, `sandbox`. That it ends well shows that a worker's code can be loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from shared import settings
from shared.paths import config_dir
from worker import landlock, main  # noqa: F401 - the worker's own start, with all that it loads
from worker.boundaries import resolve
from worker.ripgrep import binary
from worker.sandbox import Sandbox
from worker.scratch import Scratch
from worker.tools.base import ToolError


def check() -> dict[str, Any]:
    """What was found, with reasons where something is missing."""
    return {"ripgrep": _ripgrep(), "sandbox": _sandbox(resolve(Path.cwd()))}


def _ripgrep() -> dict[str, Any]:
    try:
        return {"path": binary()}
    except ToolError as e:
        return {"missing": str(e)}


def _sandbox(cwd: Path) -> dict[str, Any]:
    """For a session in this folder. `holds` is None where nothing is to be tried."""
    try:
        setting = settings.load(config_dir()).sandbox
    except settings.SettingsError:
        # Told by the doctor itself.
        setting = settings.SandboxSetting()
    scratch = Scratch(Path(os.devnull))
    sandbox = Sandbox(setting, (cwd,), scratch, os.environ)
    own = (cwd, scratch.path)
    return {
        "abi": landlock.abi(),
        "enabled": setting.enabled,
        "active": sandbox.active,
        "holds": _refuses() if sandbox.active else None,
        "network": setting.network,
        "shortcomings": sandbox.shortcomings(),
        "writable": [str(path) for path in sandbox.folders() if path.exists() and path not in own],
    }


def _refuses() -> bool:
    """A program in a sandbox that allows nothing cannot make a file, and this process can."""
    with tempfile.TemporaryDirectory() as folder:
        rules = landlock.ruleset((), network=True)
        try:
            made = Path(folder) / "made"
            command = ["/bin/sh", "-c", ': > "$1"', "sh", str(made)]
            landlock.start_restricted(
                rules, lambda: subprocess.run(command, capture_output=True, check=False)
            )
            refused = not made.exists()
        finally:
            os.close(rules)
        made.touch()
        return refused


if __name__ == "__main__":
    sys.stdout.buffer.write(to_json(check()) + b"\n")
