"""Replacing a conversation by a summary of it, which the model writes.

A summary is a record: the history keeps all that was said, only the model's view of it begins anew.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import to_json

from shared.records import CompactionRecord
from shared.repair import to_messages
from worker.context import cut_results
from worker.models.base import ModelError, ModelRequest, Reply, Retrying, Usage, usage_record
from worker.transcript import transcript

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from worker.agent_loop import Brain
    from worker.history import History

    Told = Callable[[Retrying], Awaitable[None]]
    """Hears that a request is tried again."""

_ASK: Final = (
    "Write a summary of this conversation for yourself: it will be all that you know of it. Say what the "
    "user wants, what was decided and why, what was done (files by path, commands, results), what is open, "
    "and what comes next. Keep names, paths, numbers and error messages exactly. Call no tool; answer with "
    "the summary alone."
)
_EXTRACT: Final = "This is an extract of a conversation of yours.\n\n<conversation>\n{}\n</conversation>"
_SHARES: Final = (1.5, 0.3, 0.06, 0.012)
"""Octets of an extract for each token of the window: one after the other, as the one before is too long."""
_LONGEST: Final = 16_000
"""Tokens of a summary."""


async def compact(
    history: History, brain: Brain, focus: str, told: Told, turn_id: str
) -> CompactionRecord | None:
    """Replace what the model sees by a summary that it writes; None if that is not whole, or not shorter.

    `focus` is what the summary should keep above all. The prompt of the turn, if it has one, stays word for
    word. Raises ModelError, HistoryError.
    """
    model, window, records = brain.entry.id, brain.entry.window, history.records
    prompt = next((record for record in history.of_turn(turn_id) if record.kind == "user"), None)
    if prompt is not None and records[-1] is prompt:
        # The turn begins with it: it is not to be answered yet, but what came before it to be summarized.
        messages = cut_results(to_messages(records[:-1], model), history.context(window).limits)
        before = len(to_json(messages))
    else:
        messages = history.messages(model, window)
        before = len(to_json(messages)) - len(to_json(prompt.blocks if prompt is not None else []))
    if not messages:
        return None
    ask = _ASK + (f"\n\nAbove all keep: {focus}" if focus else "")
    found = await _asked_in_it(brain, messages, ask, told)
    if found is None:
        found = await _asked_on_an_extract(brain, messages, ask, told)
    if found is None or len(found.text.encode()) >= before:
        return None
    record = CompactionRecord(
        **history.stamp(), summary=found.text, turn_id=turn_id, model=model, usage=usage_record(found.usage)
    )
    await history.write(record)
    return record


class _Summary(NamedTuple):
    text: str
    usage: Usage


async def _asked_in_it(brain: Brain, messages: list[dict[str, Any]], ask: str, told: Told) -> _Summary | None:
    """A summary by a request like all others, most of which the cache holds."""
    question = {"type": "text", "text": ask}
    if messages[-1]["role"] == "user":
        asked = [*messages[:-1], {"role": "user", "content": [*messages[-1]["content"], question]}]
    else:
        asked = [*messages, {"role": "user", "content": [question]}]
    try:
        return await _summary(brain, asked, brain.tools, told)
    except ModelError as e:
        if not e.too_long:
            raise
        return None


async def _asked_on_an_extract(
    brain: Brain, messages: list[dict[str, Any]], ask: str, told: Told
) -> _Summary | None:
    """A summary of so much of it as the model takes."""
    failure: ModelError | None = None
    for share in _SHARES:
        extract = _EXTRACT.format(transcript(messages, int(share * brain.entry.window)))
        asked = [{"type": "text", "text": text} for text in (extract, ask)]
        try:
            return await _summary(brain, [{"role": "user", "content": asked}], [], told)
        except ModelError as e:
            if not e.too_long:
                raise
            failure = e
    raise ModelError(
        "The conversation is too long for the model, and so was every extract of it for a summary: "
        "begin anew with /clear, or choose a model with a larger window.",
        too_long=True,
    ) from failure


async def _summary(
    brain: Brain, messages: list[dict[str, Any]], tools: list[dict[str, Any]], told: Told
) -> _Summary | None:
    """The reply's text; None if it is not a whole text alone."""
    request = ModelRequest(
        model=brain.entry.id,
        system=brain.system,
        messages=messages,
        tools=tools,
        max_tokens=min(brain.entry.max_output, brain.entry.window // 4, _LONGEST),
    )
    async with aclosing(brain.model.stream(request)) as items:
        async for item in items:
            if isinstance(item, Retrying):
                await told(item)
            elif isinstance(item, Reply):
                calls = any(block["type"] == "tool_use" for block in item.blocks)
                text = "".join(block["text"] for block in item.blocks if block["type"] == "text")
                whole = item.stop_reason in ("end_turn", "stop_sequence") and not calls
                return _Summary(text, item.usage) if whole and text.strip() else None
    return None
