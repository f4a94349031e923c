"""What `iac-code doctor` looks at: each check gives findings, and changes nothing but what a session would.

Never a secret's value: of a credential only where it was found.
"""

from __future__ import annotations

import os
import platform
import socket
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic_core import from_json

from shared import paths, settings
from shared.credentials import LOGIN_FILE, CredentialsError, find_credentials
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHECKUP_WITHIN: Final = 60.0
"""Seconds. A worker's code is loaded in 3; a cold disk takes more."""
_OLDEST_PYTHON: Final = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """`broken` is what keeps iac-code from working; `note` is what a person should know."""

    state: Literal["ok", "note", "broken"]
    topic: str
    text: str


def findings() -> Iterator[Finding]:
    """All of them, in the order in which they are shown. Takes seconds."""
    yield from _program()
    yield from _config_dir(paths.config_dir())
    yield from _settings(paths.config_dir())
    yield from _credentials(paths.config_dir())
    yield from _runtime()
    yield from _worker()


def _program() -> Iterator[Finding]:
    yield Finding("ok", "iac-code", f"{VERSION}, {Path(__file__).parents[2]}")
    python = f"{platform.python_version()}, {sys.executable}"
    yield Finding("ok" if sys.version_info >= _OLDEST_PYTHON else "broken", "Python", python)
    system = f"{platform.system()} {platform.release()} ({platform.machine()})"
    if sys.platform.startswith("linux"):
        yield Finding("ok", "system", system)
    else:
        yield Finding("note", "system", f"{system}: not tested, with less isolation than on Linux")


def _config_dir(folder: Path) -> Iterator[Finding]:
    topic = "config dir"
    try:
        found = folder.stat()
    except FileNotFoundError:
        yield Finding("ok", topic, f"{folder}, made when it is needed")
        return
    except OSError as e:
        yield Finding("broken", topic, f"{folder}: {e.strerror}")
        return
    if not stat.S_ISDIR(found.st_mode):
        yield Finding("broken", topic, f"{folder} is not a folder: move it away")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("broken", topic, f"{folder} cannot be written by you")
        return
    yield Finding("ok", topic, f"{folder}, mode {stat.S_IMODE(found.st_mode):04o}")
    for path, right in (
        (folder, 0o700),
        *((folder / n, 0o700) for n in ("sessions", "logs")),
        *_files(folder),
    ):
        yield from _private(path, right)


def _files(folder: Path) -> list[tuple[Path, int]]:
    return [(folder / name, 0o600) for name in ("settings.json", LOGIN_FILE)]


def _private(path: Path, right: int) -> Iterator[Finding]:
    """Something others can read, which may hold what was said, or keys."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if mode & 0o077:
        yield Finding("note", "config dir", f"{path} is open to others ({mode:04o}): chmod {right:o} {path}")


def _settings(folder: Path) -> Iterator[Finding]:
    path = folder / "settings.json"
    try:
        loaded = settings.load(folder)
    except settings.SettingsError as e:
        yield Finding("broken", "settings", str(e))
        return
    changed = sorted(loaded.model_fields_set)
    told = f"{path}: {', '.join(changed) or 'nothing set'}" if path.exists() else "none, all as it comes"
    yield Finding("ok", "settings", told)
    if loaded.dangerously_allow_outside:
        yield Finding("note", "settings", "dangerously_allow_outside: in bypass_permissions the disk is open")


def _credentials(folder: Path) -> Iterator[Finding]:
    topic = "credentials"
    try:
        found = find_credentials(os.environ, folder)
    except CredentialsError as e:
        yield Finding("broken", topic, str(e))
        return
    if found is None:
        yield Finding("note", topic, "none: sessions use the offline model; `iac-code login` stores a key")
    else:
        variables = [
            n for n in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN") if os.environ.get(n, "").strip()
        ]
        yield Finding("ok", topic, f"found in {variables[0] if variables else folder / LOGIN_FILE}")
    if server := os.environ.get("ANTHROPIC_BASE_URL"):
        yield Finding("ok", topic, f"ANTHROPIC_BASE_URL names {urlsplit(server).hostname or 'no host'}")


def _runtime() -> Iterator[Finding]:
    try:
        yield Finding("ok", "runtime folder", str(paths.runtime_root()))
    except (RuntimeError, OSError) as e:
        yield Finding("broken", "runtime folder", str(e))


def _worker() -> Iterator[Finding]:
    if _can_fork():
        yield Finding("ok", "workers", "forked from a warm zygote")
    else:
        yield Finding(
            "note", "workers", "each started anew (2 to 3 s): there is no pidfd or no SOCK_SEQPACKET"
        )
    started = time.monotonic()
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "worker.checkup"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECKUP_WITHIN,
            check=False,
        )
        told = from_json(ended.stdout) if ended.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        yield Finding("broken", "workers", f"none can be started: {e}")
        return
    if told is None:
        last = (ended.stderr.decode(errors="replace").strip().splitlines() or ["no reason is told"])[-1]
        yield Finding("broken", "workers", f"none can be started: {last}. Install iac-code again")
        return
    yield Finding("ok", "workers", f"their code is loaded in {time.monotonic() - started:.1f} s")
    ripgrep = told["ripgrep"]
    found = "path" in ripgrep
    yield Finding("ok" if found else "broken", "ripgrep", ripgrep["path"] if found else ripgrep["missing"])
    yield from _sandbox(told["sandbox"])


def _can_fork() -> bool:
    try:
        for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET):
            end.close()
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _sandbox(told: dict[str, Any]) -> Iterator[Finding]:
    topic = "sandbox"
    abi = f"Landlock ABI {told['abi']}" if told["abi"] else "no Landlock"
    for shortcoming in told["shortcomings"]:
        yield Finding("note", topic, f"{abi}; {shortcoming}")
    if not told["enabled"]:
        yield Finding("note", topic, f"off by your settings: commands may write wherever you may ({abi})")
    if not told["active"]:
        return
    if not told["holds"]:
        yield Finding("broken", topic, f"{abi}, but a command in it could write")
        return
    yield Finding("ok", topic, f"{abi}, tried: commands write in the session's folders and TMPDIR, and in:")
    yield Finding("ok", topic, ", ".join(told["writable"]))
    yield Finding("ok", topic, "network: open" if told["network"] else "network: no TCP (UDP is not covered)")
    yield Finding(
        "note",
        topic,
        "not covered: reading; modes, owners and times of files; what other programs do for a command "
        "(docker, systemd). sudo does not work in it",
    )
