"""A server of others: `@modelcontextprotocol/server-everything`, installed from npm by ops/setup-clients."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shared.mcp_servers import StdioServer
from tests.worker.mcp.conftest import having

if TYPE_CHECKING:
    from worker.tools.processes import Processes

pytestmark = pytest.mark.anyio

BIN = Path(__file__).parents[3] / ".clients" / "node_modules" / ".bin"
SERVER = BIN / "mcp-server-everything"


@pytest.mark.skipif(not SERVER.exists(), reason="server-everything is not installed: run ops/setup-clients")
async def test_the_registrys_example_server_works(processes: Processes, tmp_path: Path) -> None:
    path = f"{BIN}:{os.environ['PATH']}"
    config = StdioServer(name="everything", command=str(SERVER), args=["stdio"], env={"PATH": path})
    async with having(processes, tmp_path, config) as had:
        await had.ready("everything")
        assert (await had.call("mcp__everything__echo", message="hi")).text == "Echo: hi"
        added = await had.call("mcp__everything__get-sum", a=2, b=40)
        assert "42" in added.text
        image = await had.call("mcp__everything__get-tiny-image")
        assert "[image: image/png]" in image.text
        resource = await had.call(
            "mcp__everything__get-resource-reference", resourceType="Text", resourceId=1
        )
        assert "resource" in resource.text
        shown: list[str] = []
        await had.call("mcp__everything__trigger-long-running-operation", shown, duration=0.4, steps=4)
        assert shown
        names = {command["name"] for command in had.servers.commands()}
        assert "mcp__everything__simple-prompt" in names
        assert await had.servers.prompt("mcp__everything__simple-prompt", "")
        assert had.servers.instructions()
