"""A command that runs on beside the conversation, and what the `task_*` tools show of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from worker.exits import describe_exit
from worker.tools.base import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from worker.capture import Capture
    from worker.child import Child
    from worker.sandbox import Confinement


@dataclass(slots=True)
class BackgroundTask:
    """One background command, running or ended. It dies with the worker."""

    id: str
    command: str
    child: Child
    capture: Capture
    cwd: Path
    confinement: Confinement | None
    """Its sandbox, if it has one."""
    started: float = field(default_factory=time.time)
    """Seconds since 1970."""

    @property
    def running(self) -> bool:
        """It, or something that it started, is alive."""
        return self.child.ended is None

    def state(self) -> str:
        """`running`, or how it ended."""
        ended = self.child.ended
        if ended is None:
            return f"running for {time.time() - self.started:.0f} s (pid {self.child.pid})"
        if self.child.stop_grace is not None and ended.memory is None:
            return "stopped"
        return describe_exit(ended) or "ended: exit 0"


def find_task(tasks: Mapping[str, BackgroundTask], task_id: str) -> BackgroundTask:
    """Raises ToolError for an unknown id; ids of a worker that died are unknown to its successor."""
    if task_id not in tasks:
        known = ", ".join(tasks) or "none"
        raise ToolError(f"There is no background task {task_id!r}. Known: {known}.")
    return tasks[task_id]
