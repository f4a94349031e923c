"""`iac-code mcp list` and `test`: the MCP servers of the settings, and whether they start.

They are started by a process of the worker's code: nothing of the front imports the SDK. What their
environment and headers hold is not shown.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rich.table import Table
from rich.text import Text

from shared import paths, settings
from shared.mcp_servers import StdioServer
from supervisor.cli.failure import CommandError
from supervisor.cli.terminal import console, harmless

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.mcp_servers import McpServer
    from shared.settings import Settings


def list_servers(*, as_json: bool) -> int:
    """Print what is configured; starts nothing. Raises SettingsError."""
    servers = settings.load(paths.config_dir()).mcp_servers
    if as_json:
        for server in servers:
            print(json.dumps({"name": server.name, "type": server.type, "is": _where(server)}))
        return 0
    screen = console()
    if not servers:
        screen.print(_none())
        return 0
    table = Table("name", "type", "command or address", box=None)
    for server in servers:
        table.add_row(Text(harmless(server.name)), server.type, Text(harmless(_where(server))))
    screen.print(table)
    return 0


def test(names: Sequence[str], *, as_json: bool) -> int:
    """Start them and print what became of each; 1 if one did not start.

    Raises CommandError, SettingsError.
    """
    configured = settings.load(paths.config_dir())
    unknown = set(names) - {server.name for server in configured.mcp_servers}
    if unknown:
        known = ", ".join(server.name for server in configured.mcp_servers) or "none"
        raise CommandError(f"There is no MCP server {', '.join(sorted(unknown))}. Configured: {known}.")
    servers = [server for server in configured.mcp_servers if not names or server.name in names]
    screen = console()
    if not servers and not as_json:
        screen.print(_none())
    failed = False
    for report in _checked(servers, configured) if servers else ():
        failed |= not report["ready"]
        if as_json:
            print(json.dumps(report), flush=True)
        else:
            screen.print(Text(harmless(_told(report))))
    return int(failed)


def _none() -> str:
    return f"No MCP server is configured: `mcp_servers` in {paths.config_dir() / 'settings.json'}."


def _where(server: McpServer) -> str:
    if isinstance(server, StdioServer):
        return shlex.join([server.command, *server.args])
    parts = urlsplit(server.url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"  # the rest may hold a secret


def _checked(servers: Sequence[McpServer], configured: Settings) -> Iterator[dict[str, Any]]:
    wanted = {
        "servers": [server.model_dump() for server in servers],
        "cwd": os.getcwd(),
        "within": configured.mcp_start_within,
        "withhold": configured.withhold,
    }
    # -P: `-m` alone would import from the folder that the command is run in before all else.
    argv = [sys.executable, "-P", "-m", "worker.mcp.check"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(wanted).encode())
        process.stdin.close()
        missing = len(servers)
        for line in process.stdout:
            missing -= 1
            yield json.loads(line)
    if missing:
        raise CommandError("The check of the MCP servers ended before all had been tried.")


def _told(report: dict[str, Any]) -> str:
    took = f"{report['seconds']:.2f} s"
    if not report["ready"]:
        return f"✗ {report['name']} ({took}): {report['reason']}"
    lines = [f"✓ {report['name']} ({took})"]
    lines += [f"    {tool['name']}{' (read-only)' if tool['read_only'] else ''}" for tool in report["tools"]]
    lines += [f"    /{prompt}" for prompt in report["prompts"]]
    if report["instructions"]:
        lines.append("    instructions for the model")
    return "\n".join(lines)
