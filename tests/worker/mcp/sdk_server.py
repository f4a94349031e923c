# ruff: noqa: T201
"""A server made with the official SDK: `python sdk_server.py stdio`, or `http PORT`, or `sse PORT`.

With a port of 0 it prints the port that it has got.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import TextContent, ToolAnnotations

server = MCPServer("sdk", instructions="Say please to echo.")
READ_ONLY = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READ_ONLY)
def echo(text: str) -> str:
    """Repeats a text."""
    return f"echo: {text}"


@server.tool()
def write(text: str) -> str:
    """Pretends to change something."""
    return f"wrote {text}"


@server.tool(annotations=READ_ONLY)
def picture() -> Image:
    """An image."""
    return Image(data=b"\x89PNG not really", format="png")


@server.tool(annotations=READ_ONLY)
def measured() -> dict[str, Any]:
    """Structured content."""
    return {"width": 3, "unit": "m"}


@server.tool(annotations=READ_ONLY)
def much(mib: int) -> str:
    """A long text."""
    return "x" * (mib << 20)


@server.tool(annotations=READ_ONLY)
def fails() -> str:
    """Raises."""
    raise ValueError("on purpose")


@server.tool(annotations=READ_ONLY)
def variables(name: str) -> str:
    """A variable of its environment, and its working directory."""
    return f"{os.environ.get(name)} in {os.getcwd()}"


@server.tool(annotations=READ_ONLY)
async def slow(ctx: Context) -> str:
    """Tells of its progress, then waits for ever."""
    await ctx.report_progress(1, 3, "one of three")
    await anyio.sleep_forever()
    return "never"


@server.tool(annotations=READ_ONLY)
async def grow(ctx: Context) -> list[TextContent]:
    """Adds a tool, and says so, in mid-call."""
    server.add_tool(lambda: "new", name="grown", description="A new tool.", annotations=READ_ONLY)
    await ctx.session.send_tool_list_changed()
    return [TextContent(type="text", text="grew")]


@server.prompt()
def review(file: str, style: str = "short") -> str:
    """Reviews a file."""
    return f"Review {file} in a {style} style."


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    app = server.streamable_http_app() if sys.argv[1] == "http" else server.sse_app()
    listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
