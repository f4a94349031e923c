"""What a session has beside what is built in: MCP servers' tools and prompts, skills, hooks.

All of it comes from the client, the user's settings and skill folders; of a project's files only skills,
which are text.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from shared.commands import COMMANDS
from shared.settings import HookSettings
from worker import skills
from worker.credentials import tool_environment
from worker.hooks import Hooks
from worker.mcp.failures import ServerFailure
from worker.mcp.server import Surroundings
from worker.mcp.servers import McpServers
from worker.tools import load_tools

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shared.mcp_servers import McpServer
    from shared.settings import Settings
    from worker.commands import SlashCommand
    from worker.publisher import Publisher
    from worker.tools.base import Tool, ToolInput
    from worker.tools.processes import Processes


class CommandFailed(Exception):
    """What a command stands for cannot be had; `str()` says why."""


class Extensions:
    """`open` comes first. `tools` is one dict for the session's whole life, the built-in ones included."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._built_in = load_tools()
        self.tools: dict[str, Tool[ToolInput]] = dict(self._built_in)
        self.hooks: Hooks | None = None
        self.skill_folders: tuple[Path, ...] = ()
        """Resolved folders of the user's own skills."""
        self._servers: McpServers | None = None
        self._skills: dict[str, skills.Skill] = {}
        self._announced: list[dict[str, Any]] = []

    async def open(
        self, settings: Settings, session_id: str, cwd: Path, roots: tuple[Path, ...], processes: Processes
    ) -> None:
        """Find what there is. Starts nothing yet."""
        self._settings = settings
        environment = tool_environment(os.environ, settings.withhold)
        if settings.hooks != HookSettings():
            self.hooks = Hooks(
                settings.hooks, session_id, cwd, environment, processes, self._publisher.publish
            )
        found = await to_thread.run_sync(skills.find_skills, cwd)
        self.skill_folders = await to_thread.run_sync(skills.own_folders, found)
        self._skills = {skill.name: skill for skill in found if skill.name not in COMMANDS}
        around = Surroundings(
            processes, cwd, roots, environment, settings.mcp_start_within, settings.mcp_call_within
        )
        self._servers = McpServers(around, self._changed)
        self._changed()

    def use(self, of_client: Sequence[McpServer]) -> None:
        """Have these MCP servers, and those of the settings."""
        assert self._servers is not None
        self._servers.use(of_client, self._settings.mcp_servers)

    async def run(self) -> None:
        """Hold the servers' connections, as long as the worker lives."""
        assert self._servers is not None
        await self._servers.run()

    async def settle(self) -> None:
        """Before a turn: wait a little for servers that are starting."""
        if self._servers is not None:
            await self._servers.settle()

    async def find(self, name: str) -> Tool[ToolInput] | None:
        """A tool that is not there yet, since its server is still starting."""
        if self._servers is None:
            return None
        await self._servers.find(name)
        return self.tools.get(name)

    def sections(self) -> list[str]:
        """For the end of the system prompt."""
        instructions = self._servers.instructions() if self._servers is not None else ""
        return [text for text in (skills.section(list(self._skills.values())), instructions) if text]

    def notices(self) -> list[str]:
        """What the user has not been told yet; each is told once."""
        return self._servers.notices() if self._servers is not None else []

    def status(self) -> list[str]:
        """Lines for `/status`."""
        known = [f"Skills: {', '.join(self._skills)}"] if self._skills else []
        return [*known, *(self._servers.status() if self._servers is not None else ())]

    async def expanded(self, command: SlashCommand) -> str | None:
        """The user's message that a skill or a prompt stands for; None for a command that is neither.

        Raises CommandFailed.
        """
        try:
            if command.name in self._skills:
                return await to_thread.run_sync(skills.prompt, self._skills[command.name], command.argument)
            if self._servers is not None:
                return await self._servers.prompt(command.name, command.argument)
        except (OSError, ServerFailure) as e:
            raise CommandFailed(f"/{command.name} cannot be used: {e}") from e
        return None

    def _changed(self) -> None:
        """Servers' tools or prompts are others."""
        assert self._servers is not None
        tools: dict[str, Tool[ToolInput]] = {**self._built_in}
        tools |= cast("dict[str, Tool[ToolInput]]", self._servers.tools)
        self.tools.clear()
        self.tools.update(sorted(tools.items()))
        commands = [*skills.commands(list(self._skills.values())), *self._servers.commands()]
        if commands != self._announced:
            self._announced = commands
            self._publisher.send_commands(commands)
