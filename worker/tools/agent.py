"""`agent`: hands a task to a sub-agent with a context of its own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from worker.tools.base import Tool, ToolContext, ToolInput, ToolOutput


class AgentInput(ToolInput):
    """What the sub-agent is to do."""

    prompt: str = Field(min_length=1, description="The whole task: the sub-agent sees nothing else.")
    description: str | None = Field(default=None, description="The task in a few words, for the user.")
    type: Literal["general", "explore"] = Field(
        default="general", description="explore only reads; general may change and run things."
    )


class AgentTool(Tool[AgentInput]):
    """See the module."""

    name = "agent"
    kind = "execute"
    description = (
        "Hand a self-contained task to a sub-agent with its own context, and get its report. For searches "
        "over many files (type explore), or work whose details need not be kept here."
    )
    Input = AgentInput

    def title(self, args: AgentInput) -> str:
        """See Tool."""
        first_line = ((args.description or args.prompt).strip().splitlines() or [""])[0]
        return f"Sub-agent ({args.type}): {first_line[:80]}"

    def changes_nothing(self, args: AgentInput) -> bool:
        """An explorer has no tools that do."""
        return args.type == "explore"

    async def run(self, args: AgentInput, context: ToolContext) -> ToolOutput:
        """See Tool."""
        return ToolOutput(await context.delegate(args.prompt, args.type))


TOOL = AgentTool()
