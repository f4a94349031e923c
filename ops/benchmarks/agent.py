"""The agent that benchmarks measure: the installed command with a folder of its own and the offline model."""

from __future__ import annotations

import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supervisor.cli.acp_client import AcpClient, connect
from tests.e2e.client import AGENT, offline_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


async def _allow(method: str, params: Any) -> dict[str, Any]:
    if method != "session/request_permission":
        raise NotImplementedError
    return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


@asynccontextmanager
async def agent(
    on_update: Callable[[dict[str, Any]], None] = lambda _: None,
) -> AsyncIterator[tuple[AcpClient, Path]]:
    """A started agent, nothing said to it yet, and the folder to work in."""
    with tempfile.TemporaryDirectory(prefix="iac-code-bench-") as folder:
        home = Path(folder)
        async with connect(AGENT, on_update, _allow, offline_environment(home)) as client:
            yield client, home


def ms_since(began: float) -> float:
    """Milliseconds since a `time.perf_counter()`."""
    return (time.perf_counter() - began) * 1000


INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
