"""`initialize`: what the agent is and can do. Answered before anything heavy is imported."""

from __future__ import annotations

from typing import Any, Final

from shared.version import VERSION

PROTOCOL_VERSION: Final = 1

CAPABILITIES: Final[dict[str, Any]] = {
    "loadSession": True,
    "promptCapabilities": {"embeddedContext": True, "image": False, "audio": False},
    "mcpCapabilities": {"http": True, "sse": True},
    "auth": {"logout": {}},
    "sessionCapabilities": {
        "list": {},
        "close": {},
        "resume": {},
        "fork": {},
        "delete": {},
        "additionalDirectories": {},
    },
}


def initialize_result(auth_methods: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer to `initialize`, whatever version was asked for: one that is not ours is never echoed."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "iac-code", "title": "iac-code", "version": VERSION},
        "agentCapabilities": CAPABILITIES,
        "authMethods": auth_methods,
    }
