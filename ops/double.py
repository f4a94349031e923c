"""The model's double in a process of its own, so that it takes no time from who measures or checks."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def double(log: str = os.devnull) -> AsyncIterator[dict[str, str]]:
    """The environment that leads an agent to it. `log` gets a JSON line a request."""
    command = [sys.executable, "-m", "tests.double", "0", log]
    async with await anyio.open_process(command, stdin=None, stderr=None) as process:
        assert process.stdout is not None
        try:
            port = int(await process.stdout.receive())
            yield {
                "ANTHROPIC_API_KEY": "sk-double",
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
                "NO_PROXY": "127.0.0.1",
            }
        finally:
            process.kill()
