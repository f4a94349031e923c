"""How full the model's window is, and what is cut of tool results so that it does not overflow.

A fold over a history's records, so a worker that has just loaded them cuts what the one before it cut: the
service's cache holds the conversation as it was sent. For the same reason what is cut stays cut, and a
good part is cut at once: each change costs the cache all that comes after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from shared.repair import prompt_refused

if TYPE_CHECKING:
    from shared.records import Block, Record

FULL: Final = 0.8
"""Of the window: above it old results are shrunk, and before a turn the conversation is summarized."""
BRIM: Final = 0.9
"""Of the window: above it the newest results are cut too, and a turn's rounds are summarized as well."""
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
"""Tokens: for the system prompt and the tools."""
_OCTETS_A_TOKEN: Final = 3
"""To count on the safe side: English prose has four, code and JSON three, a Chinese character is three."""
_OCTETS_FREED: Final = 4
"""For each token that is taken for freed; on the safe side as well."""
_TOKENS_A_PICTURE: Final = 1600
_SHARES: Final = 4
"""At the brim each of the newest results has at most so many octets as this part of the window has tokens."""


@dataclass(slots=True)
class _Sent:
    """A result as it is sent."""

    call_id: str
    octets: int
    characters: int


class Context:
    """The conversation that goes to a model with a window of so many tokens."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._begin(0)

    def _begin(self, tokens: int) -> None:
        self.tokens = tokens
        """As the API counted them for the newest reply, and an estimate for what came since."""
        self.limits: dict[str, int] = {}
        """Characters that are left of those results that are cut, by call id."""
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

    def add(self, record: Record) -> None:
        """Go on by one record."""
        match record.kind:
            case "user":
                self._prompts[record.turn_id] = tokens = _estimate(record.blocks)
                self.tokens += tokens
            case "assistant":
                self.fit()  # as its request did
                self._seen = len(self._results)
                used = record.usage.get("input", 0)
                # Some servers count nothing.
                whole = used + record.usage.get("output", 0)
                self.tokens = whole if used else self.tokens + _estimate(record.blocks)
            case "tool_result" if record.parent_call_id is None:
                sent = _Sent(record.call_id, _octets(record.text), len(record.text))
                self._results.append(sent)
                self._cut(sent, min(LONGEST_RESULT, self.window))
                self.tokens += sent.octets // _OCTETS_A_TOKEN
            case "turn_end":
                self.fit()  # as its last request did, if it failed
                if prompt_refused(record):
                    self._free(self._prompts.get(record.turn_id, 0) * _OCTETS_FREED)
            case "compaction":
                kept = self._prompts.get(record.prompt_of, 0)
                self._begin(_octets(record.summary) // _OCTETS_A_TOKEN + kept)
                self._prompts[record.prompt_of] = kept
            case "clear":
                self._begin(0)

    def fit(self) -> None:
        """Cut results if the window is full: old ones first, the newest where nothing else helps."""
        if not self.is_full:
            return
        old, kept = self._seen, KEPT * self.window * _OCTETS_A_TOKEN
        while old > 0 and (kept := kept - self._results[old - 1].octets) >= 0:
            old -= 1
        while self._shrunk < old and self.tokens > ROOMY * self.window:
            self._free(self._cut(self._results[self._shrunk], SHRUNK))
            self._shrunk += 1
        if self.is_at_brim:
            self._free(sum(self._cut(sent, self.window // _SHARES) for sent in self._results[self._shrunk :]))

    def _free(self, octets: int) -> None:
        self.tokens = max(self.tokens - octets // _OCTETS_FREED, 0)

    def _cut(self, sent: _Sent, octets: int) -> int:
        """The octets that are left out by it."""
        left_out = sent.octets - octets
        if left_out <= 0:
            return 0
        sent.characters = self.limits[sent.call_id] = octets * sent.characters // sent.octets
        sent.octets = octets
        return left_out

    def prompt_fills_it(self, turn_id: str) -> bool:
        """A turn's prompt would fill the window even if there were nothing else."""
        return self._prompts.get(turn_id, 0) * _OCTETS_A_TOKEN > FULL * self.window * _OCTETS_FREED

    def output_limit(self, most: int) -> int:
        """Tokens that a reply may have beside what is there: `most`, or fewer in a few steps.

        In steps, since a thinking budget follows it, and each change of that costs the cache.
        """
        # The system prompt and the tools are in no estimate before the first reply.
        left = self.window - self.tokens - min(self.window // 2, _PROMPT)
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


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _estimate(blocks: list[Block]) -> int:
    return sum(
        _TOKENS_A_PICTURE if block.get("type") == "image" else len(to_json(block)) // _OCTETS_A_TOKEN
        for block in blocks
    )
