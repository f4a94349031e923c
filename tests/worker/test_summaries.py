"""A summary that cannot be had: what the turn does, and what the next one does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from shared.catalog import ModelEntry
from shared.records import ClearRecord, CompactionRecord
from tests.shared.histories import end, reply, text, user
from worker import events as ev
from worker.agent_loop import AgentLoop, Brain
from worker.history import History
from worker.models.base import ModelError, Reply, Retrying, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from worker.models.base import ModelRequest, StreamItem
    from worker.tool_calls import ToolCalls

pytestmark = pytest.mark.anyio

ENTRY = ModelEntry(id="m", name="M", window=10_000)


@dataclass
class Scripted:
    """A model that answers each request with the next of these; an error is raised."""

    answers: list[ModelError | Reply]
    asked: list[str] = field(default_factory=list)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.asked.append(request.messages[-1]["content"][-1]["text"])
        answer = self.answers.pop(0)
        if isinstance(answer, ModelError):
            yield Retrying("The service is overloaded.", 1)
            yield Retrying("The service is overloaded.", 2)
            raise answer
        yield answer

    async def aclose(self) -> None:
        pass


@dataclass
class _NoCalls:
    parent: str | None = None


def said(words: str, stop_reason: str = "end_turn") -> Reply:
    return Reply([text(words)], stop_reason, Usage(100, 10))


@dataclass
class Turns:
    """A session whose window is full before its next turn begins."""

    model: Scripted
    history: History = field(default_factory=lambda: History(None, 1, lambda _n: None))
    told: list[str] = field(default_factory=list)
    number: int = 0

    async def fill(self, tokens: int = 9_500) -> None:
        usage = {"input": 100, "output": tokens - 100}
        long = reply("old", text("word " * 100), model="m", usage=usage)
        await self.history.write(user("old"), long, end("old"))

    async def run(self) -> str:
        self.number += 1
        turn_id = f"t{self.number}"
        await self.history.write(user(turn_id, text(f"question {self.number}")))

        async def think() -> Brain:
            return Brain(self.model, ENTRY, "off", "system", [])

        async def emit(event: ev.Event) -> None:
            if isinstance(event, ev.Error | ev.Compaction):
                self.told.append(event.text)

        try:
            return await AgentLoop(self.history, turn_id, think, cast("ToolCalls", _NoCalls()), emit).run()
        finally:
            await self.history.write(end(turn_id))

    def compacted(self) -> int:
        return sum(record.kind == "compaction" for record in self.history.records)


async def turns(*answers: Any) -> Turns:
    made = Turns(Scripted(list(answers)))
    await made.fill()
    return made


async def test_what_may_pass_ends_the_turn_and_is_tried_again_in_the_next() -> None:
    t = await turns(ModelError("Overloaded.", passing=True), said("short"), said("answer"))
    with pytest.raises(ModelError, match="Overloaded"):
        await t.run()
    assert len(t.told) == 1, "told once that it was tried again"
    assert len(t.model.asked) == 1, "no second row of tries for the turn itself"
    assert await t.run() == "end_turn"
    assert t.compacted() == 1
    assert t.model.asked[-1] == "question 2"


async def test_what_will_not_pass_leaves_the_turn_to_its_own_luck() -> None:
    t = await turns(ModelError("Refused."), said("answer"), said("again"))
    assert await t.run() == await t.run() == "end_turn"
    assert t.compacted() == 0
    assert t.model.asked[1:] == ["question 1", "question 2"], "it is not repeated"


@pytest.mark.parametrize(
    "bad", [said("I can", "refusal"), said("The us", "max_tokens"), said(" "), said("x" * 9_999)]
)
async def test_what_is_not_whole_or_not_shorter_is_no_summary(bad: Reply) -> None:
    t = await turns(bad, bad, said("answer"))
    assert await t.run() == "end_turn"
    assert t.compacted() == 0


async def test_a_conversation_too_long_to_be_summarized_in_is_summarized_on_an_extract() -> None:
    too_long = ModelError("Too long.", too_long=True)
    t = await turns(too_long, too_long, too_long, said("short"), said("answer"))
    assert await t.run() == "end_turn"
    assert t.compacted() == 1
    assert t.told[-1] == "\n[The conversation was summarized to make room.]\n"


async def test_a_conversation_of_which_no_extract_is_short_enough_says_what_to_do() -> None:
    too_long = ModelError("Too long: /compact.", too_long=True)
    t = await turns(*[too_long] * 6)
    with pytest.raises(ModelError, match="Too long: /compact"):
        await t.run()
    assert t.model.answers == []
    assert t.compacted() == 0


async def test_what_a_summary_cannot_make_shorter_is_not_summarized() -> None:
    t = Turns(Scripted([said("answer"), said("again")]))
    # Nearly all of the window is the system prompt and the tools, of which the API counts so much.
    large = reply("old", text("word " * 100), model="m", usage={"input": 9_500, "output": 10})
    await t.history.write(user("old"), large, end("old"))
    assert await t.run() == await t.run() == "end_turn"
    assert t.model.asked == ["question 1", "question 2"]


async def test_a_window_that_proves_smaller_again_and_again_is_met_each_time() -> None:
    too_long = ModelError("Too long.", too_long=True)
    t = Turns(Scripted([too_long, said("s" * 300), said("answer")] * 2))
    for number, tokens in enumerate((7_000, 5_000)):
        await t.fill(tokens)
        assert await t.run() == "end_turn"
        assert t.compacted() == number + 1
    assert t.model.answers == []


async def test_what_nothing_can_be_left_out_of_is_not_sent_for_ever() -> None:
    too_long = ModelError("Too long.", too_long=True)
    t = await turns(said("s" * 300), too_long, too_long)
    with pytest.raises(ModelError, match="Too long"):
        await t.run()
    assert t.compacted() == 1


async def test_a_summary_that_was_not_to_be_had_is_tried_again_when_there_is_much_more() -> None:
    t = await turns(said(" "), said(" "), said("answer"), said("short"), said("answer"))
    assert await t.run() == "end_turn"
    more = reply("more", text("word " * 100), model="m", usage={"input": 9_600, "output": 1_500})
    await t.history.write(user("more"), more, end("more"))
    assert await t.run() == "end_turn"
    assert t.compacted() == 1


async def test_after_a_summary_or_a_clear_it_is_tried_again() -> None:
    for begun in (CompactionRecord(epoch=1, time=1.0, summary="s"), ClearRecord(epoch=1, time=1.0)):
        t = await turns(said(" "), said(" "), said("answer"), said("short"), said("answer"))
        assert await t.run() == "end_turn"
        await t.history.write(begun)
        await t.fill()
        assert await t.run() == "end_turn"
        assert t.compacted() == 1 + (begun.kind == "compaction")
