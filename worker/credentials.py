"""What tools may see of the environment: all that the user has, less what the agent itself asks models with.

terraform, aws and kubectl need the user's own credentials, so those stay; a setting names more to withhold.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OWN: Final = frozenset(
    {
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_CUSTOM_HEADERS",  # where a gateway wants its own authorization header
        "ANTHROPIC_IDENTITY_TOKEN",
        "ANTHROPIC_IDENTITY_TOKEN_FILE",
        "ANTHROPIC_WEBHOOK_SIGNING_KEY",
        "AWS_BEARER_TOKEN_BEDROCK",  # opens models only; the AWS tools do not read it
    }
)
_OWN_SECRET: Final = re.compile(r"IAC_CODE_\w*(KEY|TOKEN|SECRET|PASSWORD)\w*")


def tool_environment(environ: Mapping[str, str], withhold: Iterable[str] = ()) -> dict[str, str]:
    """The environment of child processes. `withhold` holds further names; `*` in one matches any part."""
    patterns = tuple(withhold)
    return {
        name: value
        for name, value in environ.items()
        if name not in _OWN
        # Some write a password into the address.
        and not (name == "ANTHROPIC_BASE_URL" and "@" in value)
        and not _OWN_SECRET.fullmatch(name)
        and not any(fnmatchcase(name, pattern) for pattern in patterns)
    }
