"""What a tool is. A new tool is one module in this folder that defines `TOOL`.

A tool never blocks the worker's event loop: it awaits, or works in a thread or a process.
It may raise `ToolError` for what the model should read; any other exception is caught by the
registry and becomes an error result too, never the end of a turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from worker.client import EditorClient
    from worker.sandbox import Sandbox
    from worker.tools.processes import Processes

ToolKind = Literal["read", "search", "edit", "execute", "fetch", "other"]


class ToolInput(BaseModel):
    """Base of every tool's input: unknown keys are an error that the model is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


InputT = TypeVar("InputT", bound=ToolInput)


class ToolError(Exception):
    """A failure that the model should read; `str()` says what happened, to what, and what to do."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What a session knows of a file it has read or written, to notice changes made by others.

    `digest` stands for the bytes on disk at that time: see `worker.files.content`.
    """

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool gave.

    `text` goes to the model. `content` is ACP tool-call content for the client; left empty, the
    client is shown `text`. `raw` is a JSON object for `rawOutput`. `stamps` are recorded with the
    result, so they survive a restart of the worker.
    """

    text: str
    is_error: bool = False
    content: list[dict[str, Any]] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    stamps: list[FileStamp] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Access:
    """A path that a call names, as resolved for judging it: see `worker.boundaries`."""

    path: Path
    write: bool


class Delegate(Protocol):
    """Runs a sub-agent for the `agent` tool; returns its last text."""

    async def __call__(self, prompt: str, agent_type: Literal["general", "explore"]) -> str:
        """Raises ToolError when depth or number is exhausted."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may use. Made anew for each call."""

    call_id: str
    cwd: Path
    roots: tuple[Path, ...]
    """Resolved folders that the session may work in: cwd first, then additionalDirectories."""
    session_dir: Path
    """`spill/` below it takes outputs too long for the model."""
    stamps: Mapping[str, str]
    """Digest by resolved path of every file that this session has read or written."""
    processes: Processes
    editor: EditorClient
    environment: Mapping[str, str]
    """For child processes: the user's, less the agent's own model credentials."""
    progress: Callable[[str], Awaitable[None]]
    """Shows the output so far (whole text, replaces what was shown)."""
    delegate: Delegate
    show_plan: Callable[[list[dict[str, Any]]], Awaitable[None]]
    """Sends ACP plan entries (`{content, priority, status}`) to the client."""
    show_terminal: Callable[[str], Awaitable[None]] | None = None
    """Shows a terminal of the client by its id. None: commands do not run in one."""
    allow_private_addresses: bool = False
    """The user agreed that this call may reach the non-public address that `Tool.crosses` named."""
    permitted: tuple[Access, ...] = ()
    """The resolved accesses that the decision allowed. A file tool that finds another file behind its
    path when it opens it goes on only inside the roots and where the file is not sensitive."""
    sandbox: Sandbox | None = None
    """Of the session's commands; None in tests of other things."""


class Tool(Generic[InputT]):
    """One tool. Class attributes describe it to the model, the client and the permission rules."""

    name: str
    kind: ToolKind
    description: str
    Input: type[InputT]
    schema: dict[str, Any] | None = None
    """The input's JSON schema where `Input` does not tell it: that of an MCP server's tool."""
    read_only: bool = False
    """True: it has no side effects, runs unasked inside the boundaries, and may be run again."""

    def title(self, args: InputT) -> str:
        """One short line for a person: what this call does to what."""
        raise NotImplementedError

    def changes_nothing(self, args: InputT) -> bool:
        """Whether this call has no side effects, so that it may run in plan mode and beside others."""
        return self.read_only

    def accesses(self, args: InputT, cwd: Path) -> list[Access]:
        """Every path that the call names, absolute but not resolved (`permissions` resolves them)."""
        return []

    async def crosses(self, args: InputT) -> str | None:
        """A boundary other than a path that the call would cross, as a phrase for the permission request."""
        return None

    def locations(self, args: InputT, cwd: Path) -> list[dict[str, Any]]:
        """ACP locations (`{path, line?}`) that an editor may follow."""
        return [{"path": str(access.path)} for access in self.accesses(args, cwd)]

    async def preview(self, args: InputT, context: ToolContext) -> list[dict[str, Any]]:
        """ACP content that shows what the call would do (a `diff` for edits), for the permission request."""
        return []

    async def run(self, args: InputT, context: ToolContext) -> ToolOutput:
        """Do it. Raises ToolError for what the model should read. Cancellable at every await."""
        raise NotImplementedError
