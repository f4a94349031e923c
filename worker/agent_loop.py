"""The agent loop: ask the model, run the tools that it calls, until it is done.

It holds no state of its own that matters: each step follows from the turn's durable records, so a
worker of a later epoch runs the same loop over the same history and goes on.
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from shared.blocks import unique_ids
from shared.records import AssistantRecord
from worker import events as ev
from worker.compaction import compact
from worker.models.base import (
    ModelError,
    ModelRequest,
    Reply,
    Retrying,
    Text,
    Thinking,
    ThinkingLevel,
    Usage,
)
from worker.retry_notice import RetryNotice
from worker.steps import AskModel, Done, RunCalls, next_step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.catalog import ModelEntry
    from worker.history import History
    from worker.models.base import Model
    from worker.tool_calls import ToolCalls

log = logging.getLogger(__name__)


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
    _compacted: bool = False
    """Once a turn: a summary that is still too long would not get shorter by another."""

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
        brain = await self.think()
        context = self.history.context(brain.entry.window)
        begins = self.history.records[-1].kind == "user"
        full = context.is_full if begins else context.is_at_brim
        # Where the prompt alone is too long, a summary of all else would not help.
        helps = not context.prompt_fills_it(self.turn_id)
        if full and helps and not self.history.compaction_failed:
            await self._summarize(brain, "to make room")
        try:
            await self._stream(brain)
        except ModelError as e:
            if not e.too_long or not helps or self._compacted:
                raise
            self._compacted = True
            if not await self._summarize(brain, "as it was too long for the model"):
                raise

    async def _summarize(self, brain: Brain, why: str) -> bool:
        """Whether that made the conversation shorter. Raises ModelError where it may be different later."""
        try:
            done = await compact(self.history, brain, "", RetryNotice(self.emit).tell, self.turn_id)
        except ModelError as e:
            if e.passing or e.auth:
                raise
            # The turn goes on with the conversation as it is, and tells its own error if it cannot.
            log.warning("no summary: %s", e)
            done = None
        if done is None:
            self.history.compaction_failed = True
            return False
        await self.emit(ev.Compaction(f"\n[The conversation was summarized {why}.]\n"))
        return True

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
    """US dollars that the session's replies cost, or None where the model's price is not known."""
    if entry.price is None:
        return None
    price = entry.price
    return sum(
        price.cost(u.get("input", 0), u.get("output", 0), u.get("cache_read", 0), u.get("cache_write", 0))
        for reply in history.replies()
        if reply.model == entry.id and (u := reply.usage)
    )


def usage_record(usage: Usage) -> dict[str, int]:
    """A request's tokens as the history keeps them."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
    }
