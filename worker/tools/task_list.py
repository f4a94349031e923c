"""`task_list`: the background tasks of this session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.tools.base import Tool, ToolInput, ToolOutput

if TYPE_CHECKING:
    from worker.tools.base import ToolContext


class TaskListInput(ToolInput):
    """Nothing to give."""


class TaskList(Tool[TaskListInput]):
    """Lists what `bash` started with run_in_background."""

    name = "task_list"
    kind = "other"
    description = "List the background tasks of this session, running and ended."
    Input = TaskListInput
    read_only = True

    def title(self, args: TaskListInput) -> str:
        """A fixed line."""
        return "List background tasks"

    async def run(self, args: TaskListInput, context: ToolContext) -> ToolOutput:
        """One line a task."""
        tasks = context.processes.background.values()
        lines = [f"{task.id}: {task.state()}: {task.command.strip().splitlines()[0][:200]}" for task in tasks]
        text = "\n".join(lines) or "There are no background tasks."
        raw = {"tasks": [{"taskId": task.id, "running": task.running} for task in tasks]}
        return ToolOutput(text, raw=raw)


TOOL = TaskList()
