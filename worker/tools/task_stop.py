"""`task_stop`: end a background task with all that it started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from worker.background import find_task
from worker.tools.base import Tool, ToolInput, ToolOutput
from worker.tools.processes import TIMEOUT_GRACE

if TYPE_CHECKING:
    from worker.tools.base import ToolContext


class TaskStopInput(ToolInput):
    """What the model gives."""

    task_id: Annotated[str, Field(description="As bash gave it.")]


class TaskStop(Tool[TaskStopInput]):
    """Ends a task. Unasked: it can only end what this session itself started."""

    name = "task_stop"
    kind = "other"
    description = "End a background task: SIGTERM, after 2 s SIGKILL, to it and to all that it started."
    Input = TaskStopInput
    read_only = True

    def title(self, args: TaskStopInput) -> str:
        """Which task."""
        return f"Stop {args.task_id[:40]}"

    async def run(self, args: TaskStopInput, context: ToolContext) -> ToolOutput:
        """Raises ToolError for an unknown task."""
        task = find_task(context.processes.background, args.task_id)
        if not task.running:
            return ToolOutput(f"{task.id} had already ended: {task.state()}.")
        task.child.stop(TIMEOUT_GRACE)
        await task.child.gone.wait()
        await task.capture.flush()
        output = task.capture.text()
        raw: dict[str, object] = {"taskId": task.id, "output": output}
        return ToolOutput(f"[{task.id}: {task.state()}]\n{output or '(no output)'}", raw=raw)


TOOL = TaskStop()
