"""A server's tool as one of the session's: named, described, asked for and run like any other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict

from worker.mcp.failures import ServerFailure
from worker.mcp.results import tool_output
from worker.tools.base import Tool, ToolError, ToolInput, ToolOutput

if TYPE_CHECKING:
    from mcp_types import Tool as Described

    from worker.mcp.server import Server
    from worker.tools.base import ToolContext

_LONGEST_TITLE: Final = 120


class McpInput(ToolInput):
    """Any object: the server itself judges it."""

    model_config = ConfigDict(extra="allow", frozen=True)


class McpTool(Tool[McpInput]):
    """Asked for unless its server marks it as read-only. Its kind is `other`, as ACP's table has it."""

    kind = "other"
    Input = McpInput

    def __init__(
        self, full_name: str, server: Server, tool: Described, description: str, schema: dict[str, Any]
    ) -> None:
        self.name = full_name
        self.description = description
        self.schema = schema
        self.read_only = bool(tool.annotations and tool.annotations.read_only_hint)
        self._server = server
        self._own_name = tool.name

    def title(self, args: McpInput) -> str:
        """The server, the tool by its own name, and the beginning of what it is given."""
        given = json.dumps(args.model_extra, ensure_ascii=False, default=str) if args.model_extra else ""
        title = " ".join(f"{self._server.name}: {self._own_name} {given}".split())
        return title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE]}…"

    async def run(self, args: McpInput, context: ToolContext) -> ToolOutput:
        """See Tool."""
        try:
            result = await self._server.call_tool(self._own_name, args.model_extra or {}, context.progress)
        except ServerFailure as e:
            raise ToolError(f"{self._server.called()} {e}") from e
        return await tool_output(result, context.session_dir, context.call_id)
