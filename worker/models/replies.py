"""Puts one reply together from the events of its stream. Pure: fed with events, it has no I/O.

Blocks come out as they came in: thinking with its signature byte for byte, and kinds that are not
known here verbatim, if they were complete.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from pydantic_core import from_json

from worker.models.base import Reply, Text, Thinking, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT_OF: Final = {"text": "text", "thinking": "thinking"}
_CALLS: Final = ("tool_use", "server_tool_use")


class _Block:
    """A content block while it streams."""

    __slots__ = ("citations", "fields", "held", "parts", "signature", "stopped")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.parts: list[str] = []
        self.held = ""
        self.signature: str | None = None
        self.citations: list[Any] = []
        self.stopped = False

    def add(self, text: str) -> str:
        """Keep a piece and return what of it can be shown: whole characters only.

        Some servers split a character outside the BMP into two escaped halves in two deltas.
        """
        if self.held or not text.isascii():
            text = self.held + text
            self.held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
            text = _without_surrogates(text.removesuffix(self.held) if self.held else text)
        self.parts.append(text)
        return text


class ReplyBuilder:
    """Feed it every event; when `complete`, `reply()` is the whole message."""

    def __init__(self) -> None:
        self.complete = False
        self._blocks: list[tuple[int, _Block]] = []
        self._newest: dict[int, _Block] = {}
        """By index. Some servers begin another block under the index of one before it."""
        self._stop_reason: str | None = None
        self._counts: dict[str, int] = {}

    def feed(self, event: Any) -> Text | Thinking | None:
        """Take one event, a JSON value; the delta to show for it, if any.

        Events of kinds that are not known are passed over, as the API asks of its clients. Raises
        ValueError for an event of a wrong shape, or that contradicts those before it.
        """
        try:
            return self._feed(event)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"an event of the stream makes no sense: {error!r}") from error

    def _feed(self, event: Mapping[str, Any]) -> Text | Thinking | None:
        kind = event["type"]
        if kind == "content_block_delta":
            return self._delta(self._newest[event["index"]], event["delta"])
        if kind == "content_block_start":
            fields = event["content_block"]
            if fields["type"] in _CALLS:
                _string(fields["id"])
                _string(fields["name"])
            self._newest[_index(event["index"])] = block = _Block(fields)
            self._blocks.append((event["index"], block))
            start = fields.get(_TEXT_OF.get(fields["type"], ""))
            return self._shown(block, start) if isinstance(start, str) and start else None
        if kind == "content_block_stop":
            self._newest[event["index"]].stopped = True
        elif kind == "message_start":
            self._count(event["message"].get("usage"))
        elif kind == "message_delta":
            if (reason := event["delta"].get("stop_reason")) is not None:
                self._stop_reason = _string(reason)
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self.complete = True
        return None

    def reply(self) -> Reply:
        """The message. A call that was cut or is no JSON object is in `malformed`."""
        blocks: list[dict[str, Any]] = []
        malformed: dict[int, str] = {}
        for _, block in sorted(self._blocks, key=itemgetter(0)):
            finished, unread = _finished(block)
            if unread is not None:
                malformed[len(blocks)] = unread
            blocks += finished
        calls = any(block["type"] == "tool_use" for block in blocks)
        read, write = (
            self._counts.get("cache_read_input_tokens", 0),
            self._counts.get("cache_creation_input_tokens", 0),
        )
        return Reply(
            blocks,
            self._stop_reason or ("tool_use" if calls else "end_turn"),
            Usage(
                self._counts.get("input_tokens", 0) + read + write,
                self._counts.get("output_tokens", 0),
                read,
                write,
            ),
            malformed,
        )

    def _delta(self, block: _Block, delta: Mapping[str, Any]) -> Text | Thinking | None:
        kind = delta["type"]
        if kind == "text_delta":
            return self._shown(block, delta["text"])
        if kind == "thinking_delta":
            return self._shown(block, delta["thinking"])
        if kind == "input_json_delta":
            block.parts.append(_string(delta["partial_json"]))
        elif kind == "signature_delta":
            block.signature = _string(delta["signature"])
        elif kind == "citations_delta":
            block.citations.append(delta["citation"])
        return None

    def _shown(self, block: _Block, piece: str) -> Text | Thinking | None:
        text = block.add(piece)
        if not text:
            return None
        return Thinking(text) if block.fields["type"] == "thinking" else Text(text)

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        """Counts are cumulative, and a later event may leave one out."""
        if usage is None:
            return
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            if _is_count(count := usage.get(name)):
                self._counts[name] = count


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**53


def _index(value: Any) -> int:
    if not _is_count(value):
        raise TypeError(f"{value!r:.100} is no index of a block")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no string")
    return value


def _finished(block: _Block) -> tuple[list[dict[str, Any]], str | None]:
    """The block, or nothing of one that was cut; and what came as a call's input if it is no JSON object."""
    fields = dict(block.fields)
    kind = fields["type"]
    text = "".join(block.parts) + ("\ufffd" if block.held else "")
    if kind in _TEXT_OF:
        fields[_TEXT_OF[kind]] = text
        if block.signature is not None:
            fields["signature"] = block.signature
        if block.citations:
            fields["citations"] = block.citations
        return [fields], None
    if kind not in _CALLS:
        return [fields] if block.stopped else [], None
    # Some servers send the input with the start, and nothing or blanks after it.
    if text.strip() or not block.stopped or "input" not in fields:
        fields["input"] = _parsed(text)
    if isinstance(fields.get("input"), dict):
        return [fields], None
    return [{**fields, "input": {}}], _without_surrogates(text)


def _parsed(text: str) -> Any:
    """The JSON value, or None where it is none that could be stored and sent back."""
    try:
        return from_json(text.encode(), allow_inf_nan=False) if text.strip() else {}
    except ValueError:
        return None


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
