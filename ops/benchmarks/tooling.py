"""A worker's tools without a worker: a folder, processes, and calls of one tool after another."""

from __future__ import annotations

import os
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.worker.filing import Editor
from worker.boundaries import resolve
from worker.tools import load_tools, run_tool
from worker.tools.base import ToolContext
from worker.tools.processes import Processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from worker.tools.base import Tool, ToolInput, ToolOutput


@dataclass
class Bench:
    """Calls tools in `folder`, as one session that remembers what it has read."""

    folder: Path
    processes: Processes
    stamps: dict[str, str] = field(default_factory=dict)
    _tools: Mapping[str, Tool[ToolInput]] = field(default_factory=load_tools)

    async def call(self, name: str, **given: Any) -> ToolOutput:
        """One call that must succeed."""
        tool = self._tools[name]
        output = await run_tool(tool, tool.Input.model_validate(given), self._context())
        assert not output.is_error, output.text
        self.stamps.update({stamp.path: stamp.digest for stamp in output.stamps})
        return output

    def _context(self) -> ToolContext:
        async def progress(_text: str) -> None:
            pass

        unused: Any = None
        return ToolContext(
            call_id="call",
            cwd=self.folder,
            roots=(self.folder,),
            session_dir=self.folder.parent / "session",
            stamps=dict(self.stamps),
            processes=self.processes,
            editor=Editor(),
            environment=dict(os.environ),
            progress=progress,
            delegate=unused,
            show_plan=unused,
        )


@asynccontextmanager
async def tooling() -> AsyncIterator[Bench]:
    """Tools in a new folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="iac-bench-") as made:
        folder = resolve(Path(made)) / "project"
        folder.mkdir()
        async with Processes() as processes:
            yield Bench(folder, processes)
