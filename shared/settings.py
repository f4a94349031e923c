"""The user's settings: `settings.json` in the config dir. Never read from a project's folder.

A file that cannot be read is an error that ends the start: going on without it could drop a rule that
denies something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.mcp_servers import McpServerList

if TYPE_CHECKING:
    from pathlib import Path


class SettingsError(Exception):
    """`settings.json` cannot be used; `str()` says why and where."""


class RuleSetting(BaseModel):
    """A permission rule: what `effect` a call of `tool` has, by path pattern or command prefix."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effect: Literal["allow", "ask", "deny"]
    tool: str
    path: str | None = None
    command: str | None = None


class HookSetting(BaseModel):
    """A command to run at an event: `sh -c` runs it, and it gets JSON on its stdin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str = Field(min_length=1)
    tool: str = "*"
    """Only for calls of this tool; a shell pattern of names. A turn's end has none."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds."""


class HookSettings(BaseModel):
    """The hooks of each event, in the order in which they run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    before_tool: tuple[HookSetting, ...] = ()
    after_tool: tuple[HookSetting, ...] = ()
    turn_end: tuple[HookSetting, ...] = ()


class SandboxSetting(BaseModel):
    """What commands of `bash` may do where the kernel can confine them (Linux with Landlock)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    writable: tuple[Annotated[str, Field(pattern=r"^[/~]")], ...] = ()
    """Further folders or files that they may write: absolute, or from `~`."""
    network: bool = True
    """False: they can neither connect nor listen by TCP."""


class Settings(BaseModel):
    """All settings with their defaults. Times are in seconds, sizes in octets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unresponsive_after: float = Field(default=3.0, gt=0)
    """A worker whose loop is silent this long is shown as unresponsive and its stacks are logged."""
    kill_after_in_turn: float = Field(default=15.0, gt=0)
    kill_after_idle: float = Field(default=5.0, gt=0)
    """Silent this long, a worker is killed and its session goes on in a new one."""
    ready_within: float = Field(default=10.0, gt=0)
    """A worker that takes longer to start has failed to boot."""
    cancel_within: float = Field(default=2.0, gt=0)
    """A cancel not answered by the worker within this is answered by the front."""
    answer_within: float = Field(default=3600.0, gt=0)
    """A permission request that no client is there to answer is denied after this."""
    recover: Literal["continue", "report"] = "continue"
    """What becomes of a turn whose worker died: it goes on, or it is answered with an error."""
    hibernate_after: float = Field(default=600.0, gt=0)
    """A session idle this long gives its worker back; the next prompt starts one from disk."""
    max_live_workers: int = Field(default=64, gt=0)
    """Beyond this many, the least recently used idle ones go at once."""
    memory_limit: int = Field(default=2 * 2**30, gt=0)
    """For a worker with its tools, resident."""
    longest_command: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Seconds that a call of bash may take at the most, whatever time-out it asks for."""
    dangerously_allow_outside: bool = False
    """In mode bypass_permissions, also allow unasked what lies outside the session's folders."""
    bash_grants: Literal["tool", "prefix"] = "tool"
    """What "always" covers for bash: every command, or the same program and subcommand."""
    rules: tuple[RuleSetting, ...] = ()
    withhold: tuple[str, ...] = ()
    """Names of further environment variables that tools do not get."""
    sandbox: SandboxSetting = SandboxSetting()
    resume_after_restart: bool = False
    """A shared agent that starts takes up the turns that were running when it ended."""
    editor_terminal: bool = False
    """Run bash in a terminal of the client where it offers one. An editor's terminal cannot be confined, so
    this holds for commands that run without the sandbox only."""
    models: tuple[dict[str, Any], ...] = ()
    """Models added to the catalog, in the catalog's own shape."""
    model: str | None = None
    """The model of new sessions."""
    mcp_servers: McpServerList = []
    """MCP servers of every session, beside those that its client names."""
    mcp_start_within: float = Field(default=60.0, gt=0)
    """An MCP server that takes longer to start has failed; some are downloaded first."""
    mcp_call_within: float = Field(default=300.0, gt=0)
    """A call of an MCP server's tool that takes longer is given up."""
    hooks: HookSettings = HookSettings()
    """Commands to run before and after tools, and at the end of turns."""


def load(config_dir: Path) -> Settings:
    """The settings of `config_dir`; defaults where there is no file. Raises SettingsError."""
    path = config_dir / "settings.json"
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Settings()
    except OSError as e:
        raise SettingsError(f"{path} cannot be read: {e.strerror}.") from e
    try:
        return Settings.model_validate_json(text)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SettingsError(f"{path}: {where}: {first['msg']}. Correct or remove it.") from e
