"""`task_output`: what a background task has printed, and whether it still runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import anyio
from anyio import to_thread
from pydantic import Field

from worker.background import find_task
from worker.sandbox_refusals import explain
from worker.tools.base import Tool, ToolInput, ToolOutput

if TYPE_CHECKING:
    from worker.tools.base import ToolContext


class TaskOutputInput(ToolInput):
    """What the model gives."""

    task_id: Annotated[str, Field(description="As bash gave it.")]
    wait: Annotated[
        float,
        Field(ge=0, le=600, description="Seconds to wait for the task to end before looking."),
    ] = 0


class TaskOutput(Tool[TaskOutputInput]):
    """Shows a task's output so far."""

    name = "task_output"
    kind = "other"
    description = "Show the output so far and the state of a background task."
    Input = TaskOutputInput
    read_only = True

    def title(self, args: TaskOutputInput) -> str:
        """Which task."""
        return f"Output of {args.task_id[:40]}"

    async def run(self, args: TaskOutputInput, context: ToolContext) -> ToolOutput:
        """Raises ToolError for an unknown task."""
        task = find_task(context.processes.background, args.task_id)
        with anyio.move_on_after(args.wait):
            await task.child.gone.wait()
        await task.capture.flush()
        output = task.capture.text()
        raw: dict[str, object] = {"taskId": task.id, "running": task.running, "output": output}
        nothing = "(no output yet)" if task.running else "(no output)"
        text = f"[{task.id}: {task.state()}]\n{output or nothing}"
        if task.confinement is not None:
            refused = await to_thread.run_sync(explain, output, task.confinement, task.cwd, not task.running)
            text += "".join(f"\n[{note}]" for note in refused)
        return ToolOutput(text, raw=raw)


TOOL = TaskOutput()
