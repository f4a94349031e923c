"""The offline model: follows plain instructions with real tools, deterministically, without a network.

It keeps no state: where it stands in a turn comes from the messages alone, so a worker that is
restarted in mid-turn goes on where it was.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
from pydantic_core import to_json

from shared.repair import TURN_CANCELLED, TURN_FAILED, TURN_INTERRUPTED
from worker.models.base import Reply, Text, Usage
from worker.models.offline_language import (
    EXPLANATION,
    Call,
    Count,
    Explain,
    Say,
    Step,
    Summarize,
    parse,
    understood,
)
from worker.models.offline_remarks import remark

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from worker.models.base import ModelRequest, StreamItem

_TITLE: Final = "The user asked, in this order:"
_ASKED: Final = "- "
"""Begins a line of a summary, which begins with the title."""
_OWN_ASK: Final = "Write a summary of this conversation for yourself:"
"""How the agent asks for one: see `worker.compaction`."""
_REPLACED: Final = "The conversation up to here was replaced by this summary of it."
_EXTRACT: Final = "This is an extract of a conversation of yours."
PAUSE: Final = 0.15
"""Seconds between two numbers that are counted slowly."""
_CHARACTERS_A_TOKEN = 4
_WORDS_A_DELTA = 4


class OfflineModel:
    """A `Model`. Usage is estimated from lengths."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """See `Model.stream`. Never raises ModelError."""
        if _would_forget(request.messages[-1]):
            yield Reply([], "refusal", Usage())
            return
        turn = _Turn.of(request)
        said: list[str] = []
        if (opening := turn.opening()) is not None:
            said.append(opening)
            yield Text(opening)
        call: Call | None = None
        for step in turn.remaining:
            if isinstance(step, Call):
                if step.tool in turn.tools:
                    call = step
                    break
                step = Say(f"The tool {step.tool} is not available here.")
            separator = "\n" if said else ""
            for piece in _pieces(step, turn.asked):
                if isinstance(step, Count) and step.slowly and piece != "1":
                    await anyio.sleep(PAUSE)
                else:
                    await anyio.lowlevel.checkpoint()
                said.append(separator + piece)
                yield Text(separator + piece)
                separator = ""
        if not said and call is None:
            said.append("Done.")
            yield Text("Done.")
        yield _reply(request, "".join(said), call)

    async def aclose(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """Where the turn stands: what was done last and what is still to do."""

    tools: set[str]
    """Names of the tools on offer."""
    asked: list[str]
    """All texts of the user, oldest first."""
    last: Call | None
    result: str
    failed: bool
    remaining: list[Step]

    @classmethod
    def of(cls, request: ModelRequest) -> _Turn:
        tools = {tool["name"] for tool in request.tools}
        start, prompt = _prompt(request.messages)
        results = _results(request.messages[start:])
        steps = parse(prompt)
        last, failed, text, done = None, False, "", 0
        for index, step in enumerate(steps):
            if not isinstance(step, Call) or step.tool not in tools:
                continue
            if step.after_success and failed:
                done = index + 1
                continue
            if not results:
                break
            text, failed = results.pop(0)
            last, done = step, index + 1
        asked = [text for message in request.messages for text in _asked(message)]
        return cls(tools, asked, last, text, failed, steps[done:])

    def opening(self) -> str | None:
        """What there is to say of the last call."""
        if self.last is None:
            return None
        following = bool(self.remaining) and _needs_success(self.remaining[0])
        return None if following else remark(self.last.tool, self.last.input, self.result, self.failed)


def _needs_success(step: Step) -> bool:
    return isinstance(step, Call) and step.after_success


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _would_forget(asked: dict[str, Any]) -> bool:
    """Whether a summary is asked for within a turn: what is done of it is known by its results alone, and
    without them all of it would be done once more."""
    texts = [block["text"] for block in _blocks(asked) if block["type"] == "text"]
    if not texts or not texts[-1].startswith(_OWN_ASK):
        return False
    results = any(block["type"] == "tool_result" for block in _blocks(asked))
    ended = any(text in (TURN_CANCELLED, TURN_FAILED, TURN_INTERRUPTED) for text in texts)
    return (results and not ended) or texts[0].startswith(_EXTRACT)


def _asked(message: dict[str, Any]) -> list[str]:
    """What the user asked for in a message, and before it by a summary that this model wrote."""
    texts = [block["text"] for block in _blocks(message) if block["type"] == "text"]
    # With its last line the agent stands for it; a user or a reply may say the rest as well.
    summary = texts[0].splitlines() if message["role"] == "user" and texts else []
    own = summary[:2] == ["<summary>", _TITLE] and summary[-1] == _REPLACED
    earlier = [line.removeprefix(_ASKED) for line in summary if own and line.startswith(_ASKED)]
    return [*earlier, *filter(None, [_said(message)])]


def _said(message: dict[str, Any]) -> str:
    """The user's own words in a message, after what was cancelled; not what is enclosed or in brackets."""
    if message["role"] != "user":
        return ""
    texts = [block["text"] for block in _blocks(message) if block["type"] == "text"]
    ended = [i for i, text in enumerate(texts) if text in (TURN_CANCELLED, TURN_FAILED, TURN_INTERRUPTED)]
    texts = texts[ended[-1] + 1 :] if ended else texts
    return "\n".join(text for text in texts if not text.lstrip().startswith(("<", "[")))


def _prompt(messages: list[dict[str, Any]]) -> tuple[int, str]:
    """Where the turn begins, and its text.

    Text that follows tool results in one message is the user's next prompt after an interrupted turn
    if it has an instruction; otherwise it is a notice of the loop, and the turn began before it.
    """
    for index in range(len(messages) - 1, -1, -1):
        said = _said(messages[index])
        if not said.strip():
            continue
        results = any(block["type"] == "tool_result" for block in _blocks(messages[index]))
        if not results or understood(said):
            return index + 1, said
    return len(messages), ""


def _results(messages: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Text and failure of each call of the turn, in order."""
    found: list[tuple[str, bool]] = []
    for message in messages:
        for block in _blocks(message):
            if block["type"] == "tool_result":
                content = block.get("content") or ""
                if not isinstance(content, str):
                    content = "\n".join(part.get("text", "") for part in content)
                found.append((content, bool(block.get("is_error"))))
    return found


def _pieces(step: Step, asked: list[str]) -> list[str]:
    """What is said for a step, as deltas."""
    match step:
        case Count(to=to):
            return [str(number) if number == 1 else f" {number}" for number in range(1, to + 1)]
        case Say(text=text):
            pass
        case Summarize():
            lines = [f"{_ASKED}{' '.join(text.split())[:200]}" for text in asked[:-1][-20:]]
            text = "\n".join([_TITLE, *lines]) if lines else "Nothing was asked so far."
        case Explain(line=line):
            text = f"I did not understand “{line[:200]}”.\n\n{EXPLANATION}" if line else EXPLANATION
        case Call():
            raise AssertionError("a call is not said")
    words = text.split(" ")
    starts = range(0, len(words), _WORDS_A_DELTA)
    return [(" " if start else "") + " ".join(words[start : start + _WORDS_A_DELTA]) for start in starts]


def _reply(request: ModelRequest, text: str, call: Call | None) -> Reply:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    if call is not None:
        # Not numbered: after a compaction the numbers would begin anew, and a client keeps calls by id.
        identity = f"toolu_{uuid.uuid4().hex}"
        blocks.append({"type": "tool_use", "id": identity, "name": call.tool, "input": call.input})
    prompt = len(request.system) + len(to_json([request.tools, request.messages], inf_nan_mode="null"))
    usage = Usage(prompt // _CHARACTERS_A_TOKEN, len(to_json(blocks)) // _CHARACTERS_A_TOKEN)
    return Reply(blocks, "tool_use" if call is not None else "end_turn", usage)
