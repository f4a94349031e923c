"""How full the model's window is, and what is cut of tool results so that it does not overflow.

A fold over a history's records, which say what window each request was cut for: so a worker that has just
loaded them cuts what the one before it cut, whichever models were asked. The service's cache holds the
conversation as it was sent. For the same reason what is cut stays cut, and a good part is cut at once:
each change costs the cache all that comes after it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from shared.repair import prompt_refused

if TYPE_CHECKING:
    from shared.records import AssistantRecord, Block, Record

FULL: Final = 0.8
"""Of the window: above it old results are shrunk, and before a turn the conversation is summarized."""
BRIM: Final = 0.9
"""Of the window: above it all results are cut, and a turn's rounds are summarized as well."""
TIGHT: Final = 0.85
"""Of the window: as far as results are cut at the brim."""
LEAST_GAIN: Final = 0.1
"""Of the window: a summary is not worth while if it takes the place of less."""
ROOMY: Final = 0.5
"""Of the window: results are shrunk down to this, or as far as it goes."""
KEPT: Final = 0.25
"""Of the window: the newest results stay whole below the brim as long as together they take no more than
this; those that the model has not seen yet always do."""
SHRUNK: Final = 400
"""Octets that are left of an older result, half from each end."""
LONGEST_RESULT: Final = 400_000
"""Octets; but no more than the window has tokens, so that no single result fills it."""
LEAST_OUTPUT: Final = 1024
_PROMPT: Final = 8_000
"""Tokens that the system prompt and the tools are taken for, until the API has counted them."""
_OCTETS_A_TOKEN: Final = 3
"""To count on the safe side: English prose has four, code and JSON three, a Chinese character is three."""
_OCTETS_FREED: Final = 4
"""For each token that is taken for freed of what the API has counted; on the safe side as well."""
_TOKENS_A_PICTURE: Final = 1600


@dataclass(slots=True)
class _Sent:
    """A result as it is sent."""

    call_id: str
    octets: int
    characters: int


class Context:
    """The conversation that goes to a model with a window of so many tokens.

    The window is that of the newest reply's request, once there is one: for the next, see `fitted`.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.base = 0
        """Tokens of the system prompt and the tools: by what the API's first count exceeds the estimate."""
        self._begin(0)

    def _begin(self, summary: int) -> None:
        self._summary = summary
        self.tokens = self.base + summary
        """As the API counted them for the newest reply, and an estimate for what came since."""
        self.limits: dict[str, int] = {}
        """Characters that are left of those results that are cut, by call id."""
        self._counted = False
        """The API has counted what there is up to the newest reply."""
        self._results: list[_Sent] = []
        self._shrunk = 0
        """So many of them are shrunk."""
        self._seen = 0
        """So many of them the model has seen."""
        self._prompts: dict[str, int] = {}
        """Tokens of prompts by turn."""

    @property
    def is_full(self) -> bool:
        """The conversation should begin anew with a summary before its next turn."""
        return self.tokens > FULL * self.window

    @property
    def is_at_brim(self) -> bool:
        """The next request may not fit."""
        return self.tokens > BRIM * self.window

    @property
    def whole(self) -> int:
        """Tokens of the next request, with the system prompt and the tools if they were not counted yet."""
        known = self._counted or self.base
        return self.tokens + (0 if known else min(self.window // 2, _PROMPT))

    def gains(self, turn_id: str) -> bool:
        """All that a summary would replace is more than a tenth of the window.

        That is not the system prompt, the tools, an earlier summary, nor this turn's prompt.
        """
        kept = self.base + self._summary + self._prompts.get(turn_id, 0)
        return self.tokens - kept > LEAST_GAIN * self.window

    def add(self, record: Record) -> None:
        """Go on by one record."""
        match record.kind:
            case "user":
                self._prompts[record.turn_id] = tokens = _estimate(record.blocks)
                self.tokens += tokens
            case "assistant":
                self.window = record.window or self.window
                self._fit()  # as its request was
                self._seen = len(self._results)
                self._count(record)
            case "tool_result" if record.parent_call_id is None:
                sent = _Sent(record.call_id, _octets(record.text), len(record.text))
                self._results.append(sent)
                self._cut(sent, min(LONGEST_RESULT, self.window))
                self.tokens += sent.octets // _OCTETS_A_TOKEN
            case "turn_end":
                if prompt_refused(record):
                    self._free(self._prompts.get(record.turn_id, 0), 1)
            case "compaction":
                kept = self._prompts.get(record.turn_id, 0)
                self._begin(_octets(record.summary) // _OCTETS_A_TOKEN)
                self._prompts[record.turn_id] = kept
                self.tokens += kept
            case "clear":
                self._begin(0)

    def _count(self, reply: AssistantRecord) -> None:
        used = reply.usage.get("input", 0)
        if not used:  # some servers count nothing
            self.tokens += _estimate(reply.blocks)
            return
        if not self._counted:
            self.base = max(used - (self.tokens - self.base), 0)
        self._counted = True
        self.tokens = used + reply.usage.get("output", 0)

    def fitted(self, window: int) -> Context:
        """The same, cut to go into a window of so many tokens. Not to be changed."""
        made = copy.copy(self)
        made.window = window
        if made.is_full:
            made.limits = dict(self.limits)
            made._results = [copy.copy(sent) for sent in self._results]
            made._fit()
        return made

    def _fit(self) -> None:
        """Cut results if the window is full: old ones first, those not seen yet only as far as they must."""
        if not self.is_full:
            return
        old, kept = self._seen, KEPT * self.window * _OCTETS_A_TOKEN
        while old > 0 and (kept := kept - self._results[old - 1].octets) >= 0:
            old -= 1
        self._shrink(old, ROOMY)
        if self.is_at_brim:
            self._shrink(self._seen, TIGHT)
        if self.is_at_brim:
            unseen = self._results[self._seen :]
            sizes = [sent.octets for sent in unseen]
            over = self.tokens - int(TIGHT * self.window)
            level = max(_level(sizes, sum(sizes) - over * _OCTETS_A_TOKEN), SHRUNK)
            self._free(sum(self._cut(sent, level) for sent in unseen), _OCTETS_A_TOKEN)

    def _shrink(self, until: int, share: float) -> None:
        """Results that were seen, the oldest first, down to a share of the window."""
        while self._shrunk < until and self.tokens > share * self.window:
            left_out = self._cut(self._results[self._shrunk], SHRUNK)
            self._free(left_out, _OCTETS_FREED if self._counted else _OCTETS_A_TOKEN)
            self._shrunk += 1

    def _free(self, octets: int, octets_a_token: int) -> None:
        self.tokens = max(self.tokens - octets // octets_a_token, 0)

    def _cut(self, sent: _Sent, octets: int) -> int:
        """The octets that are left out by it."""
        left_out = sent.octets - octets
        if left_out <= 0:
            return 0
        sent.characters = self.limits[sent.call_id] = octets * sent.characters // sent.octets
        sent.octets = octets
        return left_out

    def output_limit(self, most: int) -> int:
        """Tokens that a reply may have beside what is there: `most`, or fewer in a few steps.

        In steps, since a thinking budget follows it, and each change of that costs the cache.
        """
        left = self.window - self.whole
        return most if most <= left else max(1 << max(left, 1).bit_length() - 1, LEAST_OUTPUT)


def cut_results(messages: list[dict[str, Any]], limits: dict[str, int]) -> list[dict[str, Any]]:
    """The messages with these results cut to so many characters; others are the same objects."""
    if not limits:
        return messages
    cut = list(messages)
    for n, message in enumerate(messages):
        if message["role"] != "user":
            continue
        for i, block in enumerate(message["content"]):
            limit = limits.get(block.get("tool_use_id", ""))
            if limit is None or len(block["content"]) <= limit:
                continue
            if cut[n] is message:
                cut[n] = {**message, "content": list(message["content"])}
            cut[n]["content"][i] = {**block, "content": shortened(block["content"], limit)}
    return cut


def shortened(text: str, limit: int) -> str:
    """Both ends of a text of more than `limit` characters, with a mark between them that comes on top."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out} characters left out to save context]\n{text[len(text) - half :]}"


def _level(sizes: list[int], room: int) -> int:
    """To how much each of these sizes is to be cut for all to go into the room; smaller ones stay."""
    for number, size in enumerate(sorted(sizes)):
        level = max(room, 0) // (len(sizes) - number)
        if size > level:
            return level
        room -= size
    return max(sizes, default=0)


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _estimate(blocks: list[Block]) -> int:
    return sum(
        _TOKENS_A_PICTURE if block.get("type") == "image" else len(to_json(block)) // _OCTETS_A_TOKEN
        for block in blocks
    )
