"""A session's files for tests: calls of the file tools, one after the other, with what the session knows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from worker.boundaries import resolve
from worker.client import ClientError
from worker.permissions import call_of
from worker.tools import run_tool
from worker.tools.base import ToolContext
from worker.tools.edit_file import TOOL as EDIT
from worker.tools.list_files import TOOL as LIST
from worker.tools.read_file import TOOL as READ
from worker.tools.write_file import TOOL as WRITE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.tools.base import Tool, ToolInput, ToolOutput

_TOOLS = {tool.name: cast("Tool[ToolInput]", tool) for tool in (EDIT, LIST, READ, WRITE)}
_calls = itertools.count()


@dataclass
class Editor:
    """A client: by method a function from the params to the result; it lacks all other methods."""

    methods: dict[str, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def reads_files(self) -> bool:
        return "fs/read_text_file" in self.methods

    @property
    def writes_files(self) -> bool:
        return "fs/write_text_file" in self.methods

    @property
    def runs_terminals(self) -> bool:
        return "terminal/create" in self.methods

    async def request(self, key: str, method: str, params: dict[str, Any], timeout: float) -> Any:
        assert timeout == 5
        self.asked.append(key)
        answer = self.methods[method](params)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refusing(_params: dict[str, Any]) -> Exception:
    """A client that advertised a method and answers it with an error."""
    return ClientError("not now")


def silent(_params: dict[str, Any]) -> Exception:
    """A client that never answers; the request has timed out."""
    return TimeoutError()


@dataclass
class Session:
    """A session that works in `folder`."""

    folder: Path
    editor: Editor = field(default_factory=Editor)
    stamps: dict[str, str] = field(default_factory=dict)

    def tool(self, name: str) -> Tool[ToolInput]:
        return _TOOLS[name]

    def context(self) -> ToolContext:
        async def progress(_text: str) -> None:
            raise AssertionError("file tools show no progress")

        return ToolContext(
            call_id=f"call-{next(_calls)}",
            cwd=self.folder,
            roots=(resolve(self.folder),),
            session_dir=self.folder / ".session",
            stamps=dict(self.stamps),
            processes=cast("Any", None),
            editor=self.editor,
            environment={},
            progress=progress,
            delegate=cast("Any", None),
            show_plan=cast("Any", None),
        )

    async def call(self, name: str, *, permitted: bool = False, **raw: Any) -> ToolOutput:
        """One call; `permitted`: the user allowed the paths that it names, wherever they are."""
        tool = self.tool(name)
        args = tool.Input.model_validate(raw)
        context = self.context()
        if permitted:
            accesses = call_of(tool, args, self.folder).accesses
            context = ToolContext(**{**_fields(context), "permitted": accesses})
        output = await run_tool(tool, args, context)
        self.stamps.update({stamp.path: stamp.digest for stamp in output.stamps})
        return output

    async def preview(self, name: str, **raw: Any) -> list[dict[str, Any]]:
        tool = self.tool(name)
        return await tool.preview(tool.Input.model_validate(raw), self.context())

    def names(self) -> list[str]:
        """What is in the folder."""
        return names_in(self.folder)

    async def edit(self, path: str, old: str, new: str, **raw: Any) -> ToolOutput:
        """Read, then edit."""
        await self.call("read_file", path=path)
        return await self.call("edit_file", path=path, old_string=old, new_string=new, **raw)


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted."""
    return sorted(entry.name for entry in folder.iterdir())


def _fields(context: ToolContext) -> dict[str, Any]:
    return {name: getattr(context, name) for name in ToolContext.__dataclass_fields__}
