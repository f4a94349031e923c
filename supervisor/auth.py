"""Signing in: whether a session's model lacks credentials, how a client can have the user give them.

Asked while `initialize` is answered, so it imports neither the catalog nor the settings' models.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from pydantic_core import from_json

from shared.credentials import HOW_TO_SET, LOGIN_FILE, has_credentials
from shared.errors import AUTH_REQUIRED, INTERNAL_ERROR, RequestError
from shared.paths import config_dir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from supervisor.connection import Connection
    from supervisor.effects import Ticket

_TERMINAL_LOGIN: Final[dict[str, Any]] = {
    "type": "terminal",
    "id": "login",
    "name": "Store an API key",
    "description": "Asks for an Anthropic API key in a terminal and stores it, readable by you alone.",
    "args": ["--login"],
}
"""A client runs its own command for the agent with `args` at the end: `iac-code acp --login`."""
_WITHOUT_LOGIN: Final = ("offline", "bedrock", "vertex")


def auth_methods(capabilities: dict[str, Any]) -> list[dict[str, Any]]:
    """`authMethods` for a client: empty where no credentials are missing or it cannot open a terminal."""
    offered = capabilities.get("auth")
    if not (isinstance(offered, dict) and offered.get("terminal") is True):
        return []
    return [_TERMINAL_LOGIN] if login_needed(os.environ, config_dir()) else []


def login_needed(environ: Mapping[str, str], config: Path) -> bool:
    """Whether the model that the user chose for new sessions lacks credentials.

    Without credentials and without a choice sessions use the offline model, which needs none.
    """
    settings = _settings(config)
    chosen = environ.get("IAC_CODE_MODEL", "").strip() or settings.get("model")
    if not isinstance(chosen, str) or not chosen:
        return False
    added = settings.get("models")
    entries = [entry for entry in added if isinstance(entry, dict)] if isinstance(added, list) else []
    provider = next((entry.get("provider") for entry in entries if entry.get("id") == chosen), None)
    provider = provider or chosen.partition("/")[0]
    return provider not in _WITHOUT_LOGIN and not has_credentials(environ, config)


def _settings(config: Path) -> dict[str, Any]:
    """The settings as they stand in the file; empty if they cannot be read, which the front's start tells."""
    try:
        found = from_json((config / "settings.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


async def authenticate(client: Connection, ticket: Ticket, raw: Any) -> None:
    """`authenticate`: no method does its work here, so it succeeds where nothing is missing (any more)."""
    if await to_thread.run_sync(login_needed, os.environ, config_dir()):
        details = f"The chosen model needs credentials: {HOW_TO_SET}."
        raise RequestError(AUTH_REQUIRED, details, variable="ANTHROPIC_API_KEY")
    client.answer(ticket, {})


async def logout(client: Connection, ticket: Ticket, raw: Any) -> None:
    """`logout`: forgets the stored key. Sessions that have a worker keep theirs until they are closed."""
    path = config_dir() / LOGIN_FILE
    try:
        await to_thread.run_sync(lambda: path.unlink(missing_ok=True))
    except OSError as e:
        raise RequestError(INTERNAL_ERROR, f"{path} could not be removed: {e.strerror}.") from e
    client.answer(ticket, {})
