"""The language of prompts that direct the double: one `@word …` a line, in the newest text that has any.

Contents, in order of their lines:
    @text WORDS        a text block, streamed word by word
    @deltas N          N text deltas, each in a write of its own
    @burst N           N text deltas in one write
    @think WORDS       a signed thinking block
    @tool NAME JSON    a call; a run of calls ends the reply, and what follows answers their results
    @badjson NAME TEXT a call whose input is TEXT, no matter whether that is JSON
    @forever NAME JSON this call, in every reply from here on
    @sleep SECONDS     a pause with pings
    @stall SECONDS     a pause without a byte
    @empty             no content at all
Its end:
    @stop REASON       the stop reason
    @usage IN OUT      these counts instead of real ones
Faults, each for the first K attempts (1 unless told) at the reply that it stands in:
    @fail STATUS TYPE K [SECONDS]   an error instead of a reply; SECONDS is its retry-after (0)
    @drop K [clean]    the connection ends after the first delta; clean: the body ends as if whole
    @cuttool K         the connection ends inside a call's JSON
    @error TYPE K      an SSE error event after the first delta
A text that asks for a summary and directs nothing is answered with one that tells how far the script came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_LINE = re.compile(r"\s*@([a-z]+)\b[ \t]*(.*?)\s*")
_SUMMARY_ASKED = "Write a summary of this conversation"
_DONE = "Replies so far:"
_CALLS = ("tool", "badjson", "forever")
_CONTENTS = ("text", "deltas", "burst", "think", "sleep", "stall", "empty")
_WORDS = frozenset((*_CALLS, *_CONTENTS, "stop", "usage", "fail", "drop", "cuttool", "error"))


@dataclass(frozen=True)
class Directive:
    """One line: its word and the rest."""

    word: str
    rest: str

    def arguments(self) -> list[str]:
        """The rest, split at blanks."""
        return self.rest.split()

    def times(self, position: int) -> int:
        """K, the number of attempts that a fault holds for."""
        given = self.arguments()
        return int(given[position]) if len(given) > position and given[position].isdigit() else 1


@dataclass
class Script:
    """What to answer: the directives of one reply, and a key that is the same for each attempt at it."""

    key: tuple[str, int] = ("", 0)
    directives: list[Directive] = field(default_factory=list)


def script(messages: list[dict[str, Any]]) -> Script:
    """The directives that the next reply to these messages is made from."""
    *before, newest = (_texts(messages[-1]) if messages else []) or [""]
    if newest.startswith(_SUMMARY_ASKED) and not parse(newest):
        extract = "\n".join(before)
        rest = [*messages[:-1], {"role": "user", "content": extract}]
        done = script(rest).key[1] + extract.count("\n\nYou called ")
        return Script(directives=[Directive("text", f"A summary. {_DONE} {done}")])
    for index in range(len(messages) - 1, -1, -1):
        text = _directing(messages[index]) if messages[index]["role"] == "user" else ""
        if directives := parse(text):
            replies = _segments(directives)
            done = sum(_calls(message) for message in messages[index + 1 :]) + _summarized(messages[index])
            if done >= len(replies):
                last = replies[-1]
                endless = any(directive.word == "forever" for directive in last)
                return Script((text, done), last if endless else [Directive("text", "Done.")])
            return Script((text, done), replies[done])
    return Script(directives=[Directive("text", "Hello from the double.")])


def parse(text: str) -> list[Directive]:
    """All directives of a text; lines that are none are passed over."""
    matches = [_LINE.fullmatch(line) for line in text.splitlines()]
    return [Directive(match[1], match[2]) for match in matches if match and match[1] in _WORDS]


def _segments(directives: list[Directive]) -> list[list[Directive]]:
    replies: list[list[Directive]] = [[]]
    for directive in directives:
        if replies[-1] and replies[-1][-1].word in _CALLS and directive.word not in _CALLS:
            replies.append([])
        replies[-1].append(directive)
    return replies


def _directing(message: dict[str, Any]) -> str:
    """The newest text block that holds directives: a cancelled prompt may stand before it in one message."""
    return next((text for text in reversed(_texts(message)) if parse(text)), "")


def _texts(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    return [content] if isinstance(content, str) else [b["text"] for b in content if b["type"] == "text"]


def _summarized(message: dict[str, Any]) -> int:
    """Replies of the script that a summary beside it tells of."""
    found = re.findall(rf"{_DONE} (\d+)", "\n".join(_texts(message)))
    return int(found[-1]) if found else 0


def _calls(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(block["type"] == "tool_use" for block in content)
