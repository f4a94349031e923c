"""One turn from its prompt to its answer: recorded, run, cancelled or gone on with, ended, answered.

The turn-end record stands before the answer leaves, and a prompt whose turn has one is answered from
it. So it does not matter how often a prompt is delivered, or which epoch of the worker it reaches.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from shared.errors import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS, RequestError
from shared.faults import fault_point
from shared.records import (
    AssistantRecord,
    CommandRecord,
    ToolResultRecord,
    TurnEndRecord,
    UserRecord,
)
from worker import events as ev
from worker.history import HistoryError, usage_sum
from worker.models.base import ModelError
from worker.replay import call_update, shown_tail
from worker.results import record_result, result_event
from worker.steps import Done, RunCalls, next_step, tool_uses
from worker.tool_calls import CANCELLED
from worker.tools.base import ToolOutput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.records import Record
    from worker.agent_loop import AgentLoop
    from worker.history import History
    from worker.publisher import Publisher
    from worker.tool_calls import ToolCalls

log = logging.getLogger(__name__)

_CANCELLED_HOOKS = 0.5
"""Seconds for the hooks of a turn that was cancelled: the front waits for its answer."""
_COMMAND_CANCELLED = "Cancelled."
NOT_BEGUN = "Not run: the user cancelled the turn before this call began."
INTERRUPTED_SHOWN = "The call was interrupted: the session's process ended. It may have had effect."


@dataclass
class Told:
    """What the client was told of a turn by earlier epochs: see `shared.frames.Open`."""

    turn_id: str
    calls: dict[str, str]
    shown: dict[str, int]
    restarted: str | None


@dataclass
class Work:
    """What a turn is to do: `blocks` for the model by the loop, or a slash command."""

    blocks: list[dict[str, Any]]
    loop: AgentLoop
    command: Callable[[], Awaitable[str | None]] | None = None
    """Runs it; returns what the user is told. None: it stands for a message to the model, and has put that
    into `blocks`."""
    typed: str = ""
    """What was typed, if it is a command; else empty."""
    ready: Callable[[], Awaitable[None]] | None = None
    """Waits a little for what is still starting."""
    turn_end: Callable[[str], Awaitable[None]] | None = None
    """Runs the hooks of a turn's end."""


class Turn:
    """A turn of this session. `cancel` may come at any time, before `run` too."""

    def __init__(self, turn_id: str, history: History, publisher: Publisher, told: Told | None) -> None:
        self.id = turn_id
        self._history = history
        self._publisher = publisher
        self._told = told
        self._scope = anyio.CancelScope()
        self._failed: CommandRecord | None = None
        """A command that failed or was cancelled: written with the turn's end, which tells that it was so."""
        self.unauthorized = False
        """It ended as the model's credentials are missing or were refused."""

    def cancel(self) -> None:
        """The user cancelled: stop what runs, and end the turn as cancelled."""
        self._scope.cancel()

    async def run(self, work: Work) -> None:
        """Run or take up the turn, and answer it exactly once."""
        try:
            end = await self._end_of(work)
        except HistoryError as e:
            log.error("turn %s: %s", self.id, e)
            await self._end_open_calls(str(e))
            self._publisher.answer(self.id, error=RequestError(INTERNAL_ERROR, str(e)).to_json())
            return
        fault_point("turn.ended")
        if end.error is not None:
            self._publisher.answer(self.id, error=end.error)
        else:
            self._publisher.answer_prompt(self.id, end.stop_reason, end.usage)

    def _error(self, e: ModelError) -> RequestError:
        if e.auth:
            self.unauthorized = True
            return RequestError(AUTH_REQUIRED, str(e))
        kinds = {record.kind for record in self._history.of_turn(self.id)}
        if e.too_long and "user" in kinds and "assistant" not in kinds:
            # Told by its code that the prompt is not sent again: see `shared.repair.to_messages`.
            details = f"{e} This prompt was not taken into the conversation; send less, or name a file."
            return RequestError(INVALID_PARAMS, details, prompt="too long")
        return RequestError(INTERNAL_ERROR, str(e))

    async def _end_of(self, work: Work) -> TurnEndRecord:
        fault_point("turn.begin")
        known = self._history.of_turn(self.id)
        if self._told is not None:
            await self._catch_up(self._told, work.loop.calls)
        for record in known:
            if isinstance(record, TurnEndRecord):
                return record
        stop_reason, error = "cancelled", None
        with self._scope:
            try:
                stop_reason = await self._do(work, known)
            except ModelError as e:
                error = self._error(e).to_json()
            if work.turn_end is not None:
                await work.turn_end("error" if error is not None else stop_reason)
        if self._scope.cancelled_caught:
            stop_reason, error = "cancelled", None
            with anyio.CancelScope(shield=True):
                await self._cancelled(work)
            if work.turn_end is not None:
                with anyio.move_on_after(_CANCELLED_HOOKS, shield=True):
                    await work.turn_end(stop_reason)
        elif error is not None:
            await self._publisher.publish(ev.Error(f"\n{error['data']['details']}\n"))
        end = TurnEndRecord(
            **self._history.stamp(),
            turn_id=self.id,
            stop_reason=stop_reason,
            usage=usage_sum(self._history.of_turn(self.id)),
            error=error,
        )
        if self._failed is None:
            await self._history.write(end)
        else:
            await self._history.write(self._failed, end)
        return end

    async def _do(self, work: Work, known: Sequence[Record]) -> str:
        """Run the turn, or what is left of it; its stop reason."""
        if work.ready is not None:
            await work.ready()
        asked = any(record.kind == "user" for record in known)
        # A worker that died after it ran a command needs not run it again.
        ran = any(record.kind == "command" for record in known)
        if ran or (work.command is not None and not asked and await self._run_command(work)):
            return "end_turn"
        if not asked:
            await self._begin(work)
        return await work.loop.run()

    async def _begin(self, work: Work) -> None:
        """What was typed is durable before the model is asked."""
        await self._history.mend()
        if work.blocks:
            await self._history.write(
                UserRecord(**self._history.stamp(), turn_id=self.id, blocks=work.blocks)
            )

    async def _run_command(self, work: Work) -> bool:
        """Whether that was all; else the model is to be asked."""
        assert work.command is not None
        await self._history.mend()
        try:
            output = await work.command()
        except ModelError as e:
            self._failed = self._ran(work, str(e))
            raise
        if output is not None:
            await self._history.write(self._ran(work, output))
            await self._publisher.publish(ev.TextDelta(output, self.id))
        return output is not None

    def _ran(self, work: Work, output: str) -> CommandRecord:
        return CommandRecord(**self._history.stamp(), turn_id=self.id, text=work.typed, output=output)

    async def _cancelled(self, work: Work) -> None:
        """What had streamed is kept, and every call gets its end, on disk and at the client."""
        if not any(record.kind in ("user", "command") for record in self._history.of_turn(self.id)):
            await self._begin(work)
            if work.typed and not work.blocks and self._failed is None:
                self._failed = self._ran(work, _COMMAND_CANCELLED)
        loop = work.loop
        text = "".join(loop.partial)
        if text.strip():
            await self._history.write(
                AssistantRecord(
                    **self._history.stamp(),
                    turn_id=self.id,
                    message_id=loop.message_id,
                    model="",
                    blocks=[{"type": "text", "text": text}],
                    stop_reason="cancelled",
                )
            )
        step = next_step(self._history.of_turn(self.id))
        if isinstance(step, RunCalls):
            told = self._told.calls if self._told is not None else {}
            for call in step.calls:
                unheard = call["id"] not in self._publisher.open_calls and call["id"] not in told
                if unheard:
                    # The reply was recorded, but the cancel came before its calls were announced.
                    update = call_update(call, None, loop.calls.tools, loop.calls.cwd)
                    self._publisher.send_update(update, call["id"], update["status"])
                await record_result(
                    self._history,
                    self._publisher.publish,
                    self.id,
                    call["id"],
                    call["name"],
                    ToolOutput(NOT_BEGUN if unheard else CANCELLED, is_error=True),
                    usage=loop.calls.spent(call["id"]),
                )
        await self._end_open_calls(CANCELLED)

    async def _end_open_calls(self, why: str) -> None:
        """End at the client the calls that are nowhere on disk, a sub-agent's among them."""
        for call_id, parent in list(self._publisher.open_calls.items()):
            await self._publisher.publish(ev.ToolResult(call_id, "failed", [], {"error": why}, parent))

    async def _catch_up(self, told: Told, tools: ToolCalls) -> None:
        """Tell the client what an earlier epoch recorded but could not send any more."""
        turn = self._history.of_turn(self.id)
        results = {r.call_id: r for r in turn if isinstance(r, ToolResultRecord)}
        end = next((record for record in turn if isinstance(record, TurnEndRecord)), None)
        for record in turn:
            if isinstance(record, AssistantRecord):
                for event in shown_tail(record, told.shown):
                    await self._publisher.publish(event)
                for call in tool_uses(record):
                    if call["id"] not in told.calls and call["id"] in results:
                        update = call_update(call, results[call["id"]], tools.tools, tools.cwd)
                        self._publisher.send_update(update, call["id"], update["status"])
            elif isinstance(record, CommandRecord) and (end is None or end.stop_reason == "end_turn"):
                shown = told.shown.get(f"{self.id}:agent_message_chunk", 0)
                if record.output[shown:]:
                    await self._publisher.publish(ev.TextDelta(record.output[shown:], self.id))
        step = next_step(turn)
        if told.restarted is not None and end is None and not isinstance(step, Done):
            await self._publisher.publish(
                ev.Error(f"\n[The session was restarted ({told.restarted}); the turn goes on.]\n")
            )
        waiting = {call["id"] for call in step.calls} if isinstance(step, RunCalls) else set()
        for call_id, status in told.calls.items():
            if status in ("completed", "failed") or call_id in waiting:
                continue
            if call_id in results:
                await self._publisher.publish(result_event(results[call_id]))
            else:
                await self._publisher.publish(
                    ev.ToolResult(call_id, "failed", [], {"error": INTERRUPTED_SHOWN})
                )
