"""The agent loop: ask the model, run the tools that it calls, until it is done.

It holds no state of its own that matters: each step follows from the turn's durable records, so a
worker of a later epoch runs the same loop over the same history and goes on.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from shared.blocks import unique_ids
from shared.records import AssistantRecord
from worker import events as ev
from worker.compaction import compact
from worker.context import LEAST_GAIN
from worker.models.base import (
    ModelError,
    ModelRequest,
    Reply,
    Retrying,
    Text,
    Thinking,
    ThinkingLevel,
    usage_record,
)
from worker.retry_notice import RetryNotice
from worker.steps import AskModel, Done, RunCalls, next_step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.catalog import ModelEntry
    from worker.context import Context
    from worker.history import History
    from worker.models.base import Model
    from worker.tool_calls import ToolCalls

log = logging.getLogger(__name__)

_TRIES: Final = (0.9, 0.6, 0.35, 0.2)
"""For one reply. Of a request that was too long, the window is taken for so much in the next try."""


@dataclass
class Brain:
    """What a request to the model is made of. Looked up anew before each, so options may change."""

    model: Model
    entry: ModelEntry
    thinking: ThinkingLevel
    system: str
    tools: list[dict[str, Any]]


@dataclass
class AgentLoop:
    """One turn's loop over one history.

    `emit` takes what the client is to see, and waits when the client does not read.
    """

    history: History
    turn_id: str
    think: Callable[[], Awaitable[Brain]]
    calls: ToolCalls
    emit: Callable[[ev.Event], Awaitable[None]]
    partial: list[str] = field(default_factory=list)
    """Text of the reply that is streaming: kept for the history if the user cancels, shown by a load."""
    thoughts: list[str] = field(default_factory=list)
    """Thinking of the reply that is streaming."""
    message_id: str = ""
    _windows: dict[str, int] = field(default_factory=dict)
    """By model, tokens of windows that proved smaller in this turn than they are said to be. The next turn
    begins with what this one has cut, so it does not have to know."""

    async def run(self) -> str:
        """Run the turn to its end; returns ACP's stop reason. Raises ModelError, HistoryError."""
        while True:
            match next_step(self.history.of_turn(self.turn_id)):
                case AskModel():
                    await self._ask()
                case RunCalls() as step:
                    await self.calls.run(step)
                case Done(stop_reason):
                    return stop_reason

    async def _ask(self) -> None:
        refusal: ModelError | None = None
        sent: object = None
        for share in _TRIES:
            brain = await self._brain()
            await self._make_room(brain)
            context = self.history.context(brain.entry.window)
            to_send = len(self.history.records), context.limits, context.output_limit(brain.entry.max_output)
            if refusal is not None and to_send == sent:
                break
            try:
                return await self._stream(brain)
            except ModelError as e:
                if not e.too_long:
                    raise
                refusal, sent = e, to_send
            self._windows[brain.entry.id] = int(share * min(context.whole, brain.entry.window))
        assert refusal is not None
        raise refusal

    async def _brain(self) -> Brain:
        brain = await self.think()
        window = self._windows.get(brain.entry.id, brain.entry.window)
        if window == brain.entry.window:
            return brain
        return replace(brain, entry=brain.entry.model_copy(update={"window": window}))

    async def _make_room(self, brain: Brain) -> None:
        """By a summary, if there is no other way. Raises ModelError where it may be different later."""
        context = self.history.context(brain.entry.window)
        begins = self.history.records[-1].kind == "user"
        full = context.is_full if begins else context.is_at_brim
        if full and context.gains(self.turn_id) and self._has_grown(context):
            await self._summarize(brain, context)

    def _has_grown(self, context: Context) -> bool:
        """Since no summary of it was to be had, if that was so: it would not get shorter by trying again."""
        failed_at = self.history.no_summary_of
        return failed_at is None or context.tokens > failed_at + LEAST_GAIN * context.window

    async def _summarize(self, brain: Brain, context: Context) -> None:
        try:
            done = await compact(self.history, brain, "", RetryNotice(self.emit).tell, self.turn_id)
        except ModelError as e:
            if e.passing or e.auth:
                raise
            # The turn goes on with the conversation as it is, and tells its own error if it cannot.
            log.warning("no summary: %s", e)
            done = None
        if done is None:
            self.history.no_summary_of = context.tokens
        else:
            await self.emit(ev.Compaction("\n[The conversation was summarized to make room.]\n"))

    async def _stream(self, brain: Brain) -> None:
        window = brain.entry.window
        request = ModelRequest(
            model=brain.entry.id,
            system=brain.system,
            messages=self.history.messages(brain.entry.id, window),
            tools=brain.tools,
            max_tokens=self.history.context(window).output_limit(brain.entry.max_output),
            thinking=brain.thinking,
        )
        notice = RetryNotice(self.emit)
        self.message_id = uuid4().hex
        self._forget_partial()
        async with aclosing(brain.model.stream(request)) as items:
            async for item in items:
                match item:
                    case Text(text):
                        self.partial.append(text)
                        await self.emit(ev.TextDelta(text, self.message_id))
                    case Thinking(text):
                        self.thoughts.append(text)
                        await self.emit(ev.ThinkingDelta(text, self.message_id))
                    case Retrying():
                        # What came of the failed attempt is not the message: the next has its own id.
                        self._forget_partial()
                        self.message_id = uuid4().hex
                        await notice.tell(item)
                    case Reply():
                        await self._record(brain, item)
        await self.emit(
            ev.UsageChanged(self.history.context(window).tokens, window, cost(self.history, brain.entry))
        )

    async def _record(self, brain: Brain, reply: Reply) -> None:
        # Some servers number the calls of each reply anew, and the API wants them unique in a conversation.
        taken = set(self.history.call_ids())
        blocks = unique_ids([self._named(block) for block in reply.blocks], taken)
        await self.history.write(
            AssistantRecord(
                **self.history.stamp(),
                turn_id=self.turn_id,
                message_id=self.message_id,
                model=brain.entry.id,
                blocks=blocks,
                stop_reason=reply.stop_reason,
                usage=usage_record(reply.usage),
                malformed={blocks[place]["id"]: text for place, text in reply.malformed.items()},
                window=brain.entry.window,
            )
        )

        # Right after the write, with no wait in between: a load must find the text in one place.
        self._forget_partial()

    def _named(self, block: dict[str, Any]) -> dict[str, Any]:
        """A sub-agent's call bears its parent's id: the client sees those of all sub-agents side by side."""
        if self.calls.parent is None or block.get("type") != "tool_use":
            return block
        return {**block, "id": f"{block.get('id')}_{self.calls.parent}"}

    def _forget_partial(self) -> None:
        self.partial.clear()
        self.thoughts.clear()


def cost(history: History, entry: ModelEntry) -> float | None:
    """US dollars that this model's replies and summaries cost; None where its price is not known."""
    if entry.price is None:
        return None
    price = entry.price
    return sum(
        price.cost(u.get("input", 0), u.get("output", 0), u.get("cache_read", 0), u.get("cache_write", 0))
        for request in history.requests()
        if request.model == entry.id and (u := request.usage)
    )
