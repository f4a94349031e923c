"""The session in its worker: opened once, then turns and replays, one after the other.

It puts the parts together (history, model, tools, permissions) for each turn; what they do is theirs.
"""

from __future__ import annotations

import itertools
import logging
import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio import to_thread

from shared import catalog, content, settings
from shared.errors import INTERNAL_ERROR, RequestError
from shared.faults import fault_point
from shared.paths import config_dir
from worker import commands, replay
from worker import events as ev
from worker.agent_loop import AgentLoop, Brain
from worker.boundaries import resolve
from worker.credentials import tool_environment
from worker.history import History, HistoryError
from worker.models.choose import make_model
from worker.permissions import Policy, rules_of
from worker.prompt import system_prompt
from worker.subagent import Subagents
from worker.tool_calls import ToolCalls
from worker.tools import load_tools, specs
from worker.tools.base import ToolContext
from worker.turn import Told, Turn, Work

if TYPE_CHECKING:
    from shared.frames import Open, Prompt, Replay, WorkerSpec
    from worker.models.base import Model
    from worker.publisher import Publisher
    from worker.requests import ClientRequests
    from worker.tools.processes import Processes

log = logging.getLogger(__name__)


@dataclass
class _Chosen:
    """The model in use, made when it is first asked and again when the option changes."""

    id: str
    model: Model


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
        self._tools = load_tools()
        self._opened = anyio.Event()
        self._swept = anyio.Event()
        self._failure: str | None = None
        self._one_turn = anyio.Lock()
        self._cancelled: set[str] = set()
        self._turn: Turn | None = None
        self._running: AgentLoop | None = None
        self._told: Told | None = None
        self._roots: tuple[Path, ...] = ()
        self._chosen: _Chosen | None = None
        self.options: dict[str, str] = {}

    async def open(self, frame: Open) -> None:
        """Read and repair the history. What cannot be read is set aside, and told."""
        self.options = dict(frame.options)
        if frame.swept:
            self._swept.set()
        try:
            self._settings = await to_thread.run_sync(settings.load, config_dir())
            self._catalog = catalog.load(self._settings.models, self.options["model"])
            self._processes.memory_limit = self._settings.memory_limit
            # Spilled outputs are the session's own: the model is told to read on there.
            folders = [self._cwd, *map(Path, frame.directories), self._folder / "spill"]
            self._roots = tuple(await to_thread.run_sync(lambda: [resolve(folder) for folder in folders]))
            problems = await self._history.load(frame.resuming)
        except (HistoryError, settings.SettingsError, catalog.CatalogError) as e:
            self._failure = str(e)
        else:
            if problems:
                log.warning("%d lines of the history were set aside", len(problems))
                await self._publisher.publish(
                    ev.Error(
                        f"\n[{len(problems)} lines of this session's history could not be read and were set "
                        f"aside in {self._folder / 'history.bad.jsonl'}; the rest was loaded.]\n"
                    )
                )
            if frame.resuming is not None:
                self._told = Told(frame.calls, frame.shown, frame.restarted)
        self._opened.set()

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
            told, self._told = self._told, None
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

    def _work(self, frame: Prompt, told: Told | None) -> Work:
        loop = self._loop(frame.turn_id, told)
        command = commands.parse(frame.blocks)
        if command is None:
            return Work(content.to_model(commands.unescaped(frame.blocks)), loop)
        runner = commands.Commands(
            self._history,
            self._publisher,
            self._think,
            self.options,
            lambda: [str(root) for root in self._roots],
        )

        async def run() -> tuple[str, str]:
            return frame.blocks[0]["text"], await runner.run(command)

        return Work([], loop, run)

    async def replay(self, frame: Replay) -> None:
        """Send the history to the client that asked."""
        await self._opened.wait()
        if self._failure is not None:
            self._publisher.answer(
                frame.request_id, error=RequestError(INTERNAL_ERROR, self._failure).to_json()
            )
            return
        fault_point("replay.begin")
        # From here to the answer without a wait: what is sent after it is not in it, and nothing is lost.
        self._publisher.flush()
        whole = itertools.chain(
            replay.updates(self._history.records, self._tools, self._cwd),
            replay.streaming(self._running) if self._running is not None else (),
        )
        for number, update in enumerate(whole, start=1):
            if number > frame.skip:
                self._publisher.replay(frame.request_id, number, update)
        self._publisher.answer(frame.request_id, {})

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
        )
        subagents.calls = calls
        return AgentLoop(self._history, turn_id, self._think, calls, self._publisher.publish)

    async def _may_start(self) -> None:
        await self._swept.wait()
        await self._processes.settle()

    def _policy(self, turn_id: str) -> Policy:
        interrupted = {
            record.tool
            for record in self._history.of_turn(turn_id)
            if record.kind == "tool_result" and record.interrupted
        }
        return Policy(
            mode=cast("Any", self.options["mode"]),
            roots=self._roots,
            grants=self._history.grants(),
            suspended=frozenset(interrupted),
            rules=rules_of(self._settings.rules),
            bash_grants=self._settings.bash_grants,
            dangerously_allow_outside=self._settings.dangerously_allow_outside,
        )

    def _context(self, call_id: str, subagents: Subagents) -> ToolContext:
        async def progress(text: str) -> None:
            await self._publisher.publish(
                ev.ToolProgress(
                    call_id, content=[{"type": "content", "content": {"type": "text", "text": text}}]
                )
            )

        async def show_plan(entries: list[dict[str, Any]]) -> None:
            await self._publisher.publish(ev.PlanChanged(entries))

        return ToolContext(
            call_id=call_id,
            cwd=self._cwd,
            roots=self._roots,
            session_dir=self._folder,
            stamps=self._history.stamps(),
            processes=self._processes,
            editor=self._client,
            environment=tool_environment(os.environ, self._settings.withhold),
            progress=progress,
            delegate=subagents.delegate(call_id),
            show_plan=show_plan,
        )

    async def _think(self) -> Brain:
        model_id = self.options["model"]
        if self._chosen is None or self._chosen.id != model_id:
            made = await to_thread.run_sync(
                make_model, model_id, self._catalog.offering(model_id), os.environ, config_dir()
            )
            if self._chosen is not None:
                await self._chosen.model.aclose()
            self._chosen = _Chosen(model_id, made)
        system = await to_thread.run_sync(
            system_prompt, self._cwd, self._roots, list(self._tools), date.today()
        )
        return Brain(
            self._chosen.model,
            self._catalog.offering(model_id).entry(model_id),
            cast("Any", self.options["thinking"]),
            system,
            specs(self._tools),
        )
