"""`python -m worker.mcp.check`: starts servers, says how each fared and what it offers, ends them.

For `iac-code mcp test`, which must not import the SDK itself. One JSON object comes on stdin (`servers`,
`cwd`, `within` in seconds); one line of JSON goes to stdout for each server, as soon as it is known.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel
from pydantic_core import to_json

from shared.mcp_servers import McpServerList
from shared.processes import become_subreaper
from worker.credentials import tool_environment
from worker.mcp.names import server_keys
from worker.mcp.server import Server, Surroundings
from worker.tools.processes import Processes


class Wanted(BaseModel):
    """What is to be checked."""

    servers: McpServerList
    cwd: str
    within: float
    withhold: list[str] = []


def report(server: Server) -> dict[str, Any]:
    """How a server fared."""
    return {
        "name": server.name,
        "ready": server.state == "ready",
        "reason": server.reason,
        "seconds": round(server.took, 3),
        "tools": [{"name": name, "read_only": tool.read_only} for name, tool in sorted(server.tools.items())],
        "prompts": sorted(server.prompts),
        "instructions": bool(server.instructions),
    }


async def check(wanted: Wanted) -> None:
    """Start all, print each."""
    cwd = Path(wanted.cwd)
    environment = tool_environment(os.environ, wanted.withhold)
    async with Processes() as processes, anyio.create_task_group() as tasks:
        around = Surroundings(processes, cwd, (cwd,), environment, wanted.within, wanted.within)
        keys = server_keys([config.name for config in wanted.servers])
        servers = [
            Server(key, config, around, lambda: None)
            for key, config in zip(keys, wanted.servers, strict=True)
        ]

        async def one(server: Server) -> None:
            tasks.start_soon(server.run)
            await server.settled.wait()
            sys.stdout.buffer.write(to_json(report(server)) + b"\n")
            sys.stdout.buffer.flush()

        async with anyio.create_task_group() as checks:
            for server in servers:
                checks.start_soon(one, server)
        tasks.cancel_scope.cancel()


def main() -> None:
    """See the module."""
    logging.getLogger().addHandler(logging.NullHandler())  # what is logged is in the reports
    # Before any server is started, so that the times are theirs.
    for module in ("connection", "remote", "streams", "schemas"):
        importlib.import_module(f"worker.mcp.{module}")
    become_subreaper()
    anyio.run(check, Wanted.model_validate_json(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
