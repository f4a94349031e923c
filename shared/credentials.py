"""The agent's own model credentials: where they are looked for, and the file that `iac-code login` writes.

The environment comes first, then `credentials.json` in the config directory, which must be the user's
alone (0600). A credential never leaves this module but in the fields of `Credentials`: no message
quotes one, not even a broken one.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from pydantic_core import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOGIN_FILE: Final = "credentials.json"
HOW_TO_SET: Final = "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or run `iac-code login`"

_VARIABLES: Final[tuple[tuple[str, Literal["api_key", "auth_token"]], ...]] = (
    ("ANTHROPIC_API_KEY", "api_key"),
    ("ANTHROPIC_AUTH_TOKEN", "auth_token"),
)
_LARGEST_FILE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Credentials:
    """One credential: exactly one of the two is set. `repr` shows neither."""

    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)


class CredentialsError(Exception):
    """A credential is there but cannot be used; `str()` says why and what to do, without quoting it."""


def find_credentials(environ: Mapping[str, str], config_dir: Path) -> Credentials | None:
    """The credentials that a model would be asked with, or None where there are none.

    Raises CredentialsError for one that cannot be sent or a login file that is not safe or not readable.
    """
    for variable, kind in _VARIABLES:
        if value := environ.get(variable, "").strip():
            return Credentials(**{kind: _sendable(value, variable)})
    return _read_login(config_dir / LOGIN_FILE)


def has_credentials(environ: Mapping[str, str], config_dir: Path) -> bool:
    """Whether a model can be asked. A credential that cannot be used counts as none."""
    try:
        return find_credentials(environ, config_dir) is not None
    except CredentialsError:
        return False


def save_login(config_dir: Path, credentials: Credentials) -> Path:
    """Write the login file (0600, replaced atomically) and return its path. Raises OSError.

    Blocks; for `iac-code login`, not for the front.
    """
    config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = config_dir / LOGIN_FILE
    fresh = path.with_name(f".{LOGIN_FILE}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    known = {"api_key": credentials.api_key, "auth_token": credentials.auth_token}
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(to_json({kind: value for kind, value in known.items() if value}))
            file.flush()
            os.fsync(file.fileno())
        return fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)  # nothing else would ever remove a key from there
        raise


def _read_login(path: Path) -> Credentials | None:
    # O_NONBLOCK: a FIFO in its place must not hang the front.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CredentialsError(
            f"{path} cannot be read ({error.strerror}): run `iac-code login` again"
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise CredentialsError(
                f"{path} can be read or was made by others: run `chmod 600` on it or `iac-code login` again"
            )
        stored = from_json(os.read(descriptor, _LARGEST_FILE))
    except (OSError, ValueError):
        stored = None
    finally:
        os.close(descriptor)
    for _, kind in _VARIABLES:
        if isinstance(stored, dict) and isinstance(value := stored.get(kind), str) and value.strip():
            return Credentials(**{kind: _sendable(value.strip(), str(path))})
    raise CredentialsError(f"{path} holds no credentials: run `iac-code login` again")


def _sendable(value: str, origin: str) -> str:
    """A header takes printable ASCII; the HTTP library's error would quote what does not fit."""
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise CredentialsError(f"{origin} holds characters that no credential has: copy it anew")
    return value
