"""Installs what is compared, each into a folder of its own below `.peers/`, once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from ops.benchmarks.peers.agents import CACHE

if TYPE_CHECKING:
    from pathlib import Path

    from ops.benchmarks.peers.agents import Peer

_WITHIN: Final = 900.0
"""Seconds for one peer; some build from source."""
_PYTHONS: Final = (
    # Those that peers ask for; some do not start with the first patch versions of 3.12.
    "python3.13",
    "python3.14",
    "python3.12",
)
_ENOUGH: Final = 3 * 2**30
"""Bytes that must be free: all of them together take 1.5 GB."""


def install(peer: Peer) -> str | None:
    """Make sure that it is there. None, or why it is not, in a sentence for the table."""
    if peer.source == "here":
        return None
    stamp, wanted = peer.prefix / "made-from", " ".join(peer.packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return None
    CACHE.mkdir(exist_ok=True)
    if shutil.disk_usage(CACHE).free < _ENOUGH:
        return "not installed: less than 3 GB of disk are free"
    print(f"ops/bench peers: installing {wanted} …", file=sys.stderr, flush=True)
    shutil.rmtree(peer.prefix, ignore_errors=True)
    peer.prefix.mkdir()
    try:
        for command in _pip(peer) if peer.source == "pip" else _npm(peer):
            _run(command, peer.prefix)
    except (OSError, subprocess.SubprocessError) as e:
        return f"not installed: {_reason(e)}"
    stamp.write_text(wanted)
    return None


def _pip(peer: Peer) -> list[list[str]]:
    runs = "import sys; sys.exit(sys.version_info < (3, 12))"
    python = next((name for name in (*_PYTHONS, "python3") if _succeeds([name, "-c", runs])), None)
    if python is None:
        raise FileNotFoundError("it needs Python 3.12 or later, and there is none")
    options = ["-qq", "--no-input", "--disable-pip-version-check"]
    return [
        [python, "-m", "venv", str(peer.prefix)],
        [str(peer.prefix / "bin" / "python"), "-m", "pip", "install", *options, *peer.packages],
    ]


def _npm(peer: Peer) -> list[list[str]]:
    if shutil.which("npm") is None:
        raise FileNotFoundError("there is no npm")
    return [["npm", "install", "--no-audit", "--no-fund", "--prefix", str(peer.prefix), *peer.packages]]


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _run(command: list[str], folder: Path) -> None:
    with (folder / "install.log").open("ab") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=_WITHIN, check=True)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"its installation took over {_WITHIN:.0f} s"
    if isinstance(error, subprocess.CalledProcessError):
        return f"its installer ended with exit code {error.returncode}"
    return str(error)
