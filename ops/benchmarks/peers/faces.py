"""The double's scripts in two other dialects: OpenAI's chat completions and Gemini's generateContent. Pure.

Some agents speak no other. A face reads its dialect's messages into the few blocks that directives are found
by, and writes the same text and the same calls, each delta an event of its own, as the double itself does.
"""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.double.directives import script
from tests.double.replies import Pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.double.directives import Directive

_numbers = count(1)
Message = dict[str, Any]


def chat_messages(body: dict[str, Any]) -> list[Message]:
    """OpenAI's messages as the double's scripts read them."""
    read: list[Message] = []
    for message in body["messages"]:
        content = message.get("content") or ""
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        blocks: list[Message] = [{"type": "text", "text": text} for text in texts]
        if message["role"] == "tool":
            blocks = [{"type": "tool_result"}]
        blocks += [{"type": "tool_use"} for _ in message.get("tool_calls") or []]
        read.append({"role": "assistant" if message["role"] == "assistant" else "user", "content": blocks})
    return read


def gemini_messages(body: dict[str, Any]) -> list[Message]:
    """Gemini's contents as the double's scripts read them."""
    read: list[Message] = []
    for content in body["contents"]:
        blocks: list[Message] = []
        for part in content["parts"]:
            if "text" in part:
                blocks.append({"type": "text", "text": part["text"]})
            elif "functionCall" in part:
                blocks.append({"type": "tool_use"})
        read.append({"role": "assistant" if content.get("role") == "model" else "user", "content": blocks})
    return read


def directives(body: dict[str, Any], messages: list[Message]) -> list[Directive]:
    """What to answer; for a request without tools (a title, a summary of its own) the double's greeting."""
    return script(messages if body.get("tools") else []).directives


def deltas(plan: list[Directive]) -> Iterator[str | Pause | tuple[str, str]]:
    """Text deltas, pauses, and calls as their name and JSON, in order."""
    for directive in plan:
        if directive.word == "text":
            *words, last = directive.rest.split(" ")
            yield from (f"{word} " for word in words)
            yield last
        elif directive.word in ("deltas", "burst"):
            yield from (f"tok{number} " for number in range(int(directive.rest)))
        elif directive.word in ("sleep", "stall"):
            yield Pause(float(directive.rest), pings=False)
        elif directive.word in ("tool", "forever"):
            name, _, text = directive.rest.partition(" ")
            yield name, text.strip() or "{}"


def chat_events(body: dict[str, Any]) -> Iterator[bytes | Pause]:
    """Server-sent events of a chat completion."""
    head = {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body["model"],
    }

    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**head, "choices": [choice], **more})

    yield event({"role": "assistant", "content": ""})
    calls = 0
    for piece in deltas(directives(body, chat_messages(body))):
        if isinstance(piece, Pause):
            yield piece
        elif isinstance(piece, str):
            yield event({"content": piece})
        else:
            name, arguments = piece
            function = {"name": name, "arguments": arguments}
            call = {"index": calls, "id": f"call_{next(_numbers)}", "type": "function", "function": function}
            yield event({"tool_calls": [call]})
            calls += 1
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    yield event({}, "tool_calls" if calls else "stop", usage=usage)
    yield b"data: [DONE]\n\n"


def gemini_events(body: dict[str, Any]) -> Iterator[bytes | Pause]:
    """Server-sent events of streamGenerateContent."""
    for piece in deltas(directives(body, gemini_messages(body))):
        if isinstance(piece, Pause):
            yield piece
        elif isinstance(piece, str):
            yield _event(_candidate([{"text": piece}]))
        else:
            call = {"name": piece[0], "args": json.loads(piece[1]), "id": f"call_{next(_numbers)}"}
            yield _event(_candidate([{"functionCall": call}]))
    yield _event(_candidate([{"text": ""}], finishReason="STOP"))


def whole_chat(body: dict[str, Any]) -> dict[str, Any]:
    """An answer in one piece, for what an agent asks beside its turns."""
    message = {"role": "assistant", "content": "Hello from the double."}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


def whole_gemini(body: dict[str, Any]) -> dict[str, Any]:
    """As `whole_chat`. Where JSON is asked for, it says that it is the user's turn."""
    options = body.get("generationConfig") or {}
    judged = json.dumps({"reasoning": "The work is done.", "next_speaker": "user"})
    text = judged if options.get("responseMimeType") == "application/json" else "Hello from the double."
    return _candidate([{"text": text}], finishReason="STOP")


def _candidate(parts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"index": 0, "content": content, **more}], "usageMetadata": usage}


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
