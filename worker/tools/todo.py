"""`todo`: the agent's plan, shown to the user as it changes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from worker.tools.base import Tool, ToolContext, ToolInput, ToolOutput


class Entry(ToolInput):
    """One step."""

    content: str = Field(min_length=1, max_length=2000)
    priority: Literal["high", "medium", "low"] = "medium"
    status: Literal["pending", "in_progress", "completed"] = "pending"


class TodoInput(ToolInput):
    """The whole plan, each time."""

    entries: list[Entry] = Field(max_length=100)


class TodoTool(Tool[TodoInput]):
    """See the module. It changes nothing but what is shown."""

    name = "todo"
    kind = "other"
    description = (
        "Show the user your plan for work of several steps, and keep it true: send the whole list again "
        "whenever a step's status changes. One step at most is in_progress."
    )
    Input = TodoInput
    read_only = True

    def title(self, args: TodoInput) -> str:
        """See Tool."""
        done = sum(entry.status == "completed" for entry in args.entries)
        return f"Plan: {done} of {len(args.entries)} steps done"

    async def run(self, args: TodoInput, context: ToolContext) -> ToolOutput:
        """See Tool."""
        await context.show_plan([entry.model_dump() for entry in args.entries])
        left = sum(entry.status != "completed" for entry in args.entries)
        return ToolOutput(f"The plan is shown: {len(args.entries)} steps, {left} to do.")


TOOL = TodoTool()
