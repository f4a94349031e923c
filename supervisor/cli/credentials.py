"""`iac-code login` and `logout`: the API key in the config dir, where the environment has none."""

from __future__ import annotations

import os
import sys
from getpass import getpass

from shared import paths
from shared.credentials import LOGIN_FILE, Credentials, CredentialsError, find_credentials, save_login
from supervisor.cli.failure import CommandError


def login() -> int:
    """Store a key that is typed without echo, or comes on stdin. Raises CommandError."""
    if sys.stdin.isatty():
        print("Get a key at your provider's console. It is stored in the config dir, readable by you alone.")
        key = getpass("Anthropic API key: ").strip()
    else:
        key = sys.stdin.readline().strip()
    if not key:
        raise CommandError("No key was given; nothing is stored.")
    try:
        find_credentials({"ANTHROPIC_API_KEY": key}, paths.config_dir())
    except CredentialsError:
        raise CommandError("This is no key: it holds characters that no key has. Copy it anew.") from None
    path = save_login(paths.config_dir(), Credentials(api_key=key))
    print(f"Stored in {path}.")
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        if os.environ.get(variable):
            print(f"{variable} is set in this environment and is used instead where it is.")
    return 0


def logout() -> int:
    """Remove the stored key."""
    path = paths.config_dir() / LOGIN_FILE
    try:
        path.unlink()
    except FileNotFoundError:
        print("No key is stored.")
    else:
        print(f"Removed {path}.")
    return 0
