"""A shared agent for benchmarks, and clients of it, attached as editors are."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from tests.e2e.client import AGENT, offline_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


@dataclass
class Daemon:
    """A running `iac-code serve`: `environment` makes `iac-code acp` attach to it."""

    pid: int
    home: Path
    environment: Mapping[str, str]
    socket: Path


@asynccontextmanager
async def daemon(
    env: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[Daemon]:
    """A shared agent with a folder of its own; with the offline model, unless `env` leads to another."""
    with tempfile.TemporaryDirectory(prefix="iac-bench-") as folder:
        home = Path(folder)
        (home / "config").mkdir(mode=0o700)
        (home / "config" / "settings.json").write_text(json.dumps(settings or {}))
        environment = {**offline_environment(home), "XDG_RUNTIME_DIR": folder, **(env or {})}
        socket = home / "iac-code" / "shared.sock"
        command = [*AGENT[:-1], "serve"]
        async with await anyio.open_process(
            command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
        ) as process:
            with anyio.fail_after(30):
                while not socket.exists():  # noqa: ASYNC110 - another process makes it
                    await anyio.sleep(0.01)
            try:
                yield Daemon(process.pid, home, environment, socket)
            finally:
                process.terminate()
                with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                    await process.wait()
