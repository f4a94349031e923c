"""The session in its worker: opened once, then turns and replays, one after the other.

It puts the parts together (history, model, tools, permissions) for each turn; what they do is theirs.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio import to_thread

from shared import catalog, content, settings
from shared.errors import INTERNAL_ERROR, RequestError
from shared.faults import fault_point
from shared.paths import config_dir
from shared.updates import chunk
from worker import commands, replay
from worker import events as ev
from worker.agent_loop import AgentLoop, Brain
from worker.credentials import tool_environment
from worker.extensions import CommandFailed, Extensions
from worker.history import History, HistoryError
from worker.limits import Limits, find_limits, suspended
from worker.models.chosen import ChosenModel
from worker.permissions import Policy
from worker.prompt import system_prompt
from worker.subagent import Subagents
from worker.tool_calls import ToolCalls
from worker.tools import specs
from worker.tools.base import ToolContext
from worker.turn import Told, Turn, Work
from worker.updates import text_content

if TYPE_CHECKING:
    from shared.frames import Open, Prompt, Replay, Servers, WorkerSpec
    from worker.publisher import Publisher
    from worker.requests import ClientRequests
    from worker.tools.processes import Processes

log = logging.getLogger(__name__)


class WorkerSession:
    """One session. `open` comes first; `prompt` and `replay` wait for it."""

    def __init__(
        self,
        spec: WorkerSpec,
        publisher: Publisher,
        client: ClientRequests,
        processes: Processes,
    ) -> None:
        self._spec = spec
        self._publisher = publisher
        self._client = client
        self._processes = processes
        self._folder = Path(spec.session_dir)
        self._cwd = Path(spec.cwd)
        self._history = History(self._folder / "history.jsonl", spec.epoch, publisher.count_records)
        self._extensions = Extensions(publisher)
        self._tools = self._extensions.tools
        self._opened = anyio.Event()
        self._swept = anyio.Event()
        self._failure: str | None = None
        self._set_aside = ""
        """What a client is told of lines that could not be read."""
        self._one_turn = anyio.Lock()
        self._cancelled: set[str] = set()
        self._turn: Turn | None = None
        self._running: AgentLoop | None = None
        self._told: Told | None = None
        self._limits: Limits
        self._closing = contextlib.AsyncExitStack()
        self._chosen = ChosenModel()
        self._system: tuple[tuple[str, list[str], list[str]], str] | None = None
        """The system prompt, after what it was made for."""
        self.options: dict[str, str] = {}

    async def open(self, frame: Open) -> None:
        """Read and repair the history, then hold the MCP servers' connections. Ends with the worker.

        What cannot be read of the history is set aside, and told.
        """
        self.options = dict(frame.options)
        if frame.swept:
            self._swept.set()
        try:
            self._settings = await to_thread.run_sync(settings.load, config_dir())
            self._environment = tool_environment(os.environ, self._settings.withhold)
            self._catalog = catalog.load(self._settings.models, self.options["model"])
            self._processes.memory_limit = self._settings.memory_limit
            self._processes.longest = self._settings.longest_command
            limits = self._limits = await to_thread.run_sync(
                find_limits,
                self._cwd,
                [Path(directory) for directory in frame.directories],
                self._folder,
                self._spec.epoch,
                self._settings,
                os.environ,
            )
            self._closing.push_async_callback(limits.sandbox.close)
            await self._extensions.open(
                self._settings, self._spec.session_id, self._cwd, limits.of_client, self._processes
            )
            self._extensions.use(frame.mcp_servers)
            problems = await self._history.load(frame.resuming)
        except (HistoryError, settings.SettingsError, catalog.CatalogError) as e:
            self._failure = str(e)
        else:
            if problems:
                log.warning("%d lines of the history were set aside", len(problems))
                self._set_aside = (
                    f"\n[{len(problems)} lines of this session's history could not be read and were set "
                    f"aside in {self._folder / 'history.bad.jsonl'}; the rest was loaded.]\n"
                )
                await self._publisher.publish(ev.Error(self._set_aside))
            if frame.resuming is not None:
                self._told = Told(frame.resuming, frame.calls, frame.shown, frame.restarted)
        self._opened.set()
        if self._failure is None:
            await self._swept.wait()
            await self._extensions.run()

    async def use_servers(self, frame: Servers) -> None:
        """Other MCP servers than at the start."""
        await self._opened.wait()
        if self._failure is None:
            self._extensions.use(frame.mcp_servers)

    async def close(self) -> None:
        """The last call, when no tool runs any more."""
        await self._closing.aclose()
        await self._chosen.aclose()
        self._history.close()

    def swept(self) -> None:
        """Nothing of earlier epochs runs any more."""
        self._swept.set()

    def cancel(self, turn_id: str) -> None:
        """End a turn that runs, or that is yet to come."""
        self._cancelled.add(turn_id)
        if self._turn is not None and self._turn.id == turn_id:
            self._turn.cancel()

    async def prompt(self, frame: Prompt) -> None:
        """Run a turn to its answer."""
        await self._opened.wait()
        async with self._one_turn:
            if self._failure is not None:
                self._publisher.answer(
                    frame.turn_id, error=RequestError(INTERNAL_ERROR, self._failure).to_json()
                )
                return
            told = self._told if self._told is not None and self._told.turn_id == frame.turn_id else None
            self._client.capabilities = frame.capabilities
            self._publisher.open_calls.clear()
            self._publisher.shown = dict(told.shown) if told is not None else {}
            turn = self._turn = Turn(frame.turn_id, self._history, self._publisher, told)
            if frame.turn_id in self._cancelled:
                turn.cancel()
            try:
                if not frame.blocks and not self._history.of_turn(frame.turn_id):
                    raise LookupError("a turn to take up is not in the history")
                work = self._work(frame, told)
                self._running = work.loop
                await turn.run(work)
            except Exception as e:  # a defect of ours costs the turn, never the session
                log.exception("turn failed")
                details = f"The turn failed for a reason of ours ({type(e).__name__}). See the log."
                self._publisher.answer(frame.turn_id, error=RequestError(INTERNAL_ERROR, details).to_json())
            finally:
                self._turn = self._running = None
            if turn.unauthorized:
                # The user may log in before the next turn, which is to be asked with what is there then.
                await self._chosen.aclose()

    def _work(self, frame: Prompt, told: Told | None) -> Work:
        loop = self._loop(frame.turn_id, told)
        turn_end = self._turn_end if self._extensions.hooks is not None else None
        typed = frame.blocks
        if not typed and commands.was_compacting(self._history.of_turn(frame.turn_id)):
            # What was typed is recorded with what came of it, and that had not been told yet.
            typed = [{"type": "text", "text": "/compact"}]
        command = commands.parse(typed)
        if command is None:
            blocks = content.to_model(commands.unescaped(typed))
            return Work(blocks, loop, ready=self._extensions.settle, turn_end=turn_end)
        runner = commands.Commands(
            self._history,
            frame.turn_id,
            self._publisher,
            self._think,
            self.options,
            lambda: [str(root) for root in self._limits.of_client],
            self._extensions.status,
        )

        async def run() -> str | None:
            try:
                message = await self._extensions.expanded(command)
            except CommandFailed as e:
                return str(e)
            if message is None:
                return await runner.run(command)
            work.blocks = content.to_model([{"type": "text", "text": message}, *typed[1:]])
            return None

        work = Work([], loop, run, typed[0]["text"], turn_end=turn_end)
        return work

    async def _turn_end(self, stop_reason: str) -> None:
        # What a hook looks at may still be written by what an earlier epoch left running.
        await self._swept.wait()
        assert self._extensions.hooks is not None
        await self._extensions.hooks.turn_end(stop_reason)

    async def replay(self, frame: Replay) -> None:
        """Send the history to the client that asked."""
        await self._opened.wait()
        if self._failure is not None:
            self._publisher.answer(
                frame.request_id, error=RequestError(INTERNAL_ERROR, self._failure).to_json()
            )
            return
        fault_point("replay.begin")
        number = 0
        before = list(self._history.records)
        for number, update in enumerate(replay.updates(before, self._tools, self._cwd), start=1):
            if number > frame.skip:
                await self._publisher.replay_slowly(frame.request_id, number, update)
        # From here to the answer without a wait: what is sent after it is not in it, and nothing is lost.
        self._publisher.flush()
        rest = itertools.chain(
            replay.later(before, self._history.records, self._tools, self._cwd),
            replay.streaming(self._running) if self._running is not None else (),
            # A client that loads hears nothing but its replay.
            [chunk("agent_message_chunk", self._set_aside, frame.request_id)] if self._set_aside else (),
        )
        self._set_aside = ""
        for later, update in enumerate(rest, start=number + 1):
            if later > frame.skip:
                self._publisher.replay(frame.request_id, later, update)
        self._publisher.answer(frame.request_id, {})
        self._publisher.end_replay(frame.request_id)

    def _loop(self, turn_id: str, told: Told | None) -> AgentLoop:
        subagents = Subagents(self._history, turn_id, self._think, self._publisher.publish)
        calls = ToolCalls(
            history=self._history,
            grants=self._history,
            turn_id=turn_id,
            tools=self._tools,
            policy=lambda: self._policy(turn_id),
            context=lambda call_id: self._context(call_id, subagents),
            cwd=self._cwd,
            client=self._client,
            emit=self._publisher.publish,
            may_start=self._may_start,
            announced=set(told.calls) if told is not None else set(),
            spent=subagents.spent,
            hooks=self._extensions.hooks,
            find=self._extensions.find,
            audit=self._limits.audit,
        )
        subagents.calls = calls
        return AgentLoop(self._history, turn_id, self._think, calls, self._publisher.publish)

    async def _may_start(self) -> None:
        await self._swept.wait()
        await self._processes.settle()

    def _policy(self, turn_id: str) -> Policy:
        limits, settings = self._limits, self._settings
        return Policy(
            mode=cast("Any", self.options["mode"]),
            roots=limits.roots,
            grants=self._history.grants(),
            suspended=suspended(self._history.of_turn(turn_id), self._tools),
            rules=limits.rules,
            bash_grants=settings.bash_grants,
            dangerously_allow_outside=settings.dangerously_allow_outside,
            skills=self._extensions.skill_folders,
        )

    def _context(self, call_id: str, subagents: Subagents) -> ToolContext:
        async def progress(text: str) -> None:
            await self._publisher.publish(
                ev.ToolProgress(
                    call_id,
                    content=text_content(text),
                    parent_call_id=self._publisher.open_calls.get(call_id),
                )
            )

        async def show_plan(entries: list[dict[str, Any]]) -> None:
            await self._publisher.publish(ev.PlanChanged(entries))

        async def show_terminal(terminal_id: str) -> None:
            content = [{"type": "terminal", "terminalId": terminal_id}]
            parent = self._publisher.open_calls.get(call_id)
            await self._publisher.publish(ev.ToolProgress(call_id, content=content, parent_call_id=parent))

        in_terminal = self._settings.editor_terminal and self._client.runs_terminals
        return ToolContext(
            call_id=call_id,
            cwd=self._cwd,
            roots=self._limits.roots,
            session_dir=self._folder,
            stamps=self._history.stamps(),
            processes=self._processes,
            editor=self._client,
            environment=self._environment,
            progress=progress,
            delegate=subagents.delegate(call_id),
            show_plan=show_plan,
            show_terminal=show_terminal if in_terminal else None,
            sandbox=self._limits.sandbox,
        )

    async def _think(self) -> Brain:
        model_id = self.options["model"]
        model = await self._chosen.get(model_id, self._catalog)
        for notice in (*self._limits.untold(), *self._extensions.notices()):
            await self._publisher.publish(ev.Error(f"\n[{notice}]\n"))
        return Brain(
            model,
            self._catalog.offering(model_id).entry(model_id),
            cast("Any", self.options["thinking"]),
            await self._system_prompt(),
            specs(self._tools),
        )

    async def _system_prompt(self) -> str:
        """Read anew for each turn, not for each request: a file of it that the turn's own tools change would
        cost the service's cache all that comes after it."""
        made_for = (self._turn.id if self._turn else "", self._extensions.sections(), list(self._tools))
        if self._system is None or self._system[0] != made_for:
            _, more, tools = made_for
            text = await to_thread.run_sync(
                system_prompt, self._cwd, self._limits.roots, tools, date.today(), more
            )
            self._system = made_for, text
        return self._system[1]
