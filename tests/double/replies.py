"""Renders a script as the pieces of an SSE body: bytes to write, pauses, and how the body ends. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from tests.double.cache import CHARACTERS_A_TOKEN, Counted
from tests.double.rules import signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.double.directives import Directive


@dataclass(frozen=True)
class Pause:
    """Seconds without content; with pings or without a byte."""

    seconds: float
    pings: bool


@dataclass(frozen=True)
class End:
    """The end of the body: whole, as if whole, or torn."""

    how: Literal["whole", "torn"] = "whole"


Piece = bytes | Pause | End

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_call_numbers = count(1)
_CALLS = ("tool", "badjson", "forever")


def event(kind: str, **fields: Any) -> bytes:
    """One server-sent event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def render(model: str, directives: list[Directive], counted: Counted, faults: set[str]) -> Iterator[Piece]:
    """The body of one reply. `faults` are the words of the faults that hold for this attempt."""
    words = {directive.word: directive for directive in directives}
    usage = {
        "input_tokens": counted.plain,
        "cache_read_input_tokens": counted.read,
        "cache_creation_input_tokens": counted.written,
    }
    forced = words["usage"].arguments() if "usage" in words else None
    if forced:
        usage = {
            "input_tokens": int(forced[0]),
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        }
    message: dict[str, Any] = {
        "id": f"msg_{next(_call_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield event("message_start", message=message)
    yield PING
    written = 0
    for piece in [] if "empty" in words else _contents(directives):
        yield piece
        if not isinstance(piece, bytes):
            continue
        written += len(piece)
        delta = b"content_block_delta" in piece
        in_call = b"input_json_delta" in piece
        if (delta and faults & {"error", "drop"}) or (in_call and "cuttool" in faults):
            break
    if "error" in faults:
        kind = words["error"].arguments()[0]
        yield event("error", error={"type": kind, "message": f"The double was told to fail: {kind}"})
        yield End()
        return
    if faults:
        clean = "drop" in faults and "clean" in words["drop"].rest
        yield End("whole" if clean else "torn")
        return
    calls = any(word in words for word in _CALLS)
    stop = words["stop"].rest if "stop" in words else "tool_use" if calls else "end_turn"
    output = int(forced[1]) if forced else max(written // CHARACTERS_A_TOKEN, 1)
    yield event(
        "message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": output}
    )
    yield event("message_stop")
    yield End()


def _contents(directives: list[Directive]) -> Iterator[Piece]:
    index = 0
    for directive in directives:
        if directive.word in ("sleep", "stall"):
            yield Pause(float(directive.rest), pings=directive.word == "sleep")
            continue
        block = _block(directive)
        if block is None:
            continue
        start, deltas, one_write = block
        yield event("content_block_start", index=index, content_block=start)
        pieces = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        if one_write:
            yield b"".join(pieces)
        else:
            yield from pieces
        yield event("content_block_stop", index=index)
        index += 1


def _block(directive: Directive) -> tuple[dict[str, Any], list[dict[str, Any]], bool] | None:
    """A block's start, its deltas, and whether they go out in one write."""
    word, rest = directive.word, directive.rest
    if word == "text":
        return {"type": "text", "text": ""}, [_text(part) for part in _by_word(rest)], False
    if word in ("deltas", "burst"):
        deltas = [_text(f"tok{number} ") for number in range(int(rest))]
        return {"type": "text", "text": ""}, deltas, word == "burst"
    if word == "think":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _by_word(rest)]
        deltas.append({"type": "signature_delta", "signature": signature(rest)})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas, False
    if word in _CALLS:
        name, _, text = rest.partition(" ")
        text = text.strip() or "{}"
        third = len(text) // 3 + 1
        parts = ["", *(text[at : at + third] for at in range(0, len(text), third))]
        start = {"type": "tool_use", "id": f"toolu_double_{next(_call_numbers)}", "name": name, "input": {}}
        return start, [{"type": "input_json_delta", "partial_json": part} for part in parts], False
    return None


def _by_word(text: str) -> list[str]:
    words = text.split(" ")
    return [word if number == len(words) - 1 else word + " " for number, word in enumerate(words)]


def _text(text: str) -> dict[str, str]:
    return {"type": "text_delta", "text": text}
