"""Keeping the conversation inside the model's window: old results shrink first, then a summary.

A summary is a record: the history keeps all that was said, only the model's view of it begins anew.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from shared.records import CompactionRecord
from worker.models.base import ModelError, ModelRequest, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.records import Record
    from worker.agent_loop import Brain
    from worker.history import History

FULL: Final = 0.8
"""Of the window: above it the context is made smaller before the next request."""
KEEP_RESULTS: Final = 6
"""The newest tool results are sent whole however full the window is."""
SHRUNK: Final = 400
"""Characters that are left of an older result, half from each end."""
OCTETS_A_TOKEN: Final = 3
"""On the safe side: English prose has four, code and JSON three; of Chinese one character has three."""
LONGEST_RESULT: Final = 400_000
"""Characters: no single result may fill the window by itself."""

_ASK: Final = (
    "Write a summary of this conversation for yourself: it will be all that you know of it. Say what the "
    "user wants, what was decided and why, what was done (files by path, commands, results), what is open, "
    "and what comes next. Keep names, paths, numbers and error messages exactly. Answer with the summary "
    "alone."
)


def used_tokens(records: Sequence[Record]) -> int:
    """Tokens in the context as the API counted them for the newest reply; 0 after a compaction or clear."""
    for record in reversed(records):
        if record.kind in ("compaction", "clear"):
            return 0
        if record.kind == "assistant" and record.usage:
            return record.usage.get("input", 0) + record.usage.get("output", 0)
    return 0


def is_full(records: Sequence[Record], window: int) -> bool:
    """The context needs to be made smaller."""
    return used_tokens(records) > FULL * window


def fitted(messages: list[dict[str, Any]], window: int, octets: int) -> list[dict[str, Any]]:
    """The messages with over-long results cut, and all but the newest results shrunk if they fill the window.

    `octets` are those of all the messages as JSON. Told from the whole messages, not from what the last
    request took: that was shrunk already, and sending all again because it fitted would flutter.
    """
    full = octets > FULL * window * OCTETS_A_TOKEN
    places = [
        (n, i)
        for n, message in enumerate(messages)
        if message["role"] == "user"
        for i, block in enumerate(message["content"])
        if block["type"] == "tool_result"
    ]
    old = len(places) - KEEP_RESULTS if full else 0
    fit = list(messages)
    for place, (n, i) in enumerate(places):
        block = fit[n]["content"][i]
        limit = SHRUNK if place < old else LONGEST_RESULT
        if isinstance(block["content"], str) and len(block["content"]) > limit:
            if fit[n] is messages[n]:
                fit[n] = {**messages[n], "content": list(messages[n]["content"])}
            fit[n]["content"][i] = {**block, "content": _cut(block["content"], limit)}
    return fit


def _cut(text: str, limit: int) -> str:
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out to save context]\n{text[-half:]}"


async def compact(history: History, brain: Brain, focus: str) -> CompactionRecord | None:
    """Replace what the model sees by a summary that it writes. None: there was nothing, or it did not shrink.

    Raises ModelError, HistoryError. `focus` says what the summary should keep above all.
    """
    messages = history.messages(brain.entry.id, brain.entry.window)
    before = sum(len(str(message["content"])) for message in messages)
    if not messages:
        return None
    ask = _ASK + (f"\n\nAbove all keep: {focus}" if focus else "")
    if messages[-1]["role"] == "user":
        messages[-1] = {"role": "user", "content": [*messages[-1]["content"], {"type": "text", "text": ask}]}
    else:
        messages.append({"role": "user", "content": [{"type": "text", "text": ask}]})
    request = ModelRequest(
        model=brain.entry.id,
        system=brain.system,
        messages=messages,
        tools=brain.tools,  # the same prefix as always, so that the cache serves it
        max_tokens=min(brain.entry.max_output, 16_000),
    )
    summary = await _text_of(brain, request)
    if not summary.strip():
        raise ModelError("The model wrote no summary. The conversation was left as it is.")
    if len(summary) >= before:
        return None
    record = CompactionRecord(**history.stamp(), summary=summary)
    await history.write(record)
    return record


async def _text_of(brain: Brain, request: ModelRequest) -> str:
    async with aclosing(brain.model.stream(request)) as items:
        async for item in items:
            if isinstance(item, Reply):
                return "".join(b["text"] for b in item.blocks if b.get("type") == "text")
    return ""
