"""Times as the protocol writes them."""

from __future__ import annotations

import time


def timestamp(seconds: float) -> str:
    """Seconds since 1970 in ISO 8601, UTC, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
