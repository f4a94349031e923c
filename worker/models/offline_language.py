"""The instructions that the offline model understands: one line of text to one or more steps. Pure.

Wording is forgiving (case, politeness, bullets, quotes); what follows the verb is taken as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_NUMBERS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Count:
    """Answer with the numbers from 1 on; `slowly` with a pause between."""

    to: int
    slowly: bool


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool. `after_success`: only if the call before it succeeded."""

    tool: str
    input: dict[str, Any]
    after_success: bool = False


@dataclass(frozen=True, slots=True)
class Summarize:
    """Tell what the user has asked so far: what a compaction asks for."""


@dataclass(frozen=True, slots=True)
class Explain:
    """Say what this model is and understands; `line` is what it did not understand, if anything."""

    line: str = ""


Step = Say | Count | Call | Summarize | Explain

_COURTESY: Final = re.compile(
    r"(?:[-*•]\s+|\d+[.)]\s+"
    r"|(?:please|kindly|now|then|next|finally|and|also|ok|okay|hey|hi|just)\b[,:]?\s+"
    r"|(?:can|could|would|will)\s+you\s+|i\s+(?:want|would\s+like|need)\s+you\s+to\s+|let(?:'s|\s+us)\s+)+",
    re.IGNORECASE,
)
_THANKS: Final = re.compile(r"[,\s]+(?:please|thanks|thank you)\s*[.!?]*$", re.IGNORECASE)


def parse(text: str) -> list[Step]:
    """The steps of a whole prompt, in order; a single `Explain` if no line of it is understood."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not understood(text):
        return [Explain(lines[0] if lines else "")]
    parsed = [(line, _parse_line(line)) for line in lines]
    if parsed[0][1] == [Summarize()]:
        return [Summarize()]  # the lines after it say how
    return [
        step for line, steps in parsed for step in (steps or [Say(f"I did not understand “{line[:200]}”.")])
    ]


def understood(text: str) -> bool:
    """Whether any line of the text is an instruction."""
    return any(_parse_line(line.strip()) for line in text.splitlines())


def _parse_line(line: str) -> list[Step]:
    """The steps of one line; none if it is not understood."""
    said = _COURTESY.sub("", line, count=1) if _COURTESY.match(line) else line
    for pattern, make in _GRAMMAR:
        if match := pattern.fullmatch(said):
            return make(match)
    return []


def _name(text: str) -> str:
    """A file, folder, word or URL: without the courtesy, full stop and quotes around it."""
    bare = _THANKS.sub("", text.strip())
    if len(bare) > 1 and bare[-1] in ".!?" and bare[-2] not in "./*":
        bare = bare[:-1]
    return _unquoted(bare)


def _unquoted(text: str) -> str:
    """Without the quotes around the whole: `"a" "b"` stays."""
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text.count(text[0]) == 2
    return text[1:-1] if quoted else text


def _list(match: re.Match[str]) -> list[Step]:
    path = _name(match["path"] or "")
    return [Call("list_files", {"path": path} if path else {})]


def _count(match: re.Match[str]) -> list[Step]:
    to = int(match["to"])
    if to > MOST_NUMBERS:
        return [Say(f"I count to {MOST_NUMBERS} at most.")]
    return [Count(to, match["slowly"] is not None)]


def _replace(match: re.Match[str]) -> list[Step]:
    path = _name(match["path"])
    edit = {"path": path, "old_string": _unquoted(match["old"]), "new_string": _unquoted(match["new"])}
    # edit_file wants a file to have been read in the session.
    return [Call("read_file", {"path": path}), Call("edit_file", edit, after_success=True)]


def _plan(match: re.Match[str]) -> list[Step]:
    entries = [
        {"content": part.strip(), "priority": "medium", "status": "pending"}
        for part in match["entries"].split(";")
        if part.strip()
    ]
    return [Call("todo", {"entries": entries})] if entries else []


def _call(tool: str, key: str, clean: Callable[[str], str] = _name) -> Callable[[re.Match[str]], list[Step]]:
    return lambda match: [Call(tool, {key: clean(match["what"])})]


def _rule(pattern: str, make: Callable[[re.Match[str]], list[Step]]) -> tuple[re.Pattern[str], Any]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL), make


_ONE: Final = r"""\S+|"[^"]+"|'[^']+'|`[^`]+`"""
_OF_FILE: Final = r"(?:me\s+)?(?:the\s+)?(?:(?:file|contents?\s+of)\s+)?"
_GRAMMAR: Final[list[tuple[re.Pattern[str], Callable[[re.Match[str]], list[Step]]]]] = [
    _rule(r"say(?:\s*:|\s)\s*(?P<what>.+)", lambda match: [Say(match["what"])]),
    _rule(r"count\s+(?:up\s+)?to\s+(?P<to>\d{1,9})(?P<slowly>[\s,]+slowly)?\s*[.!]*", _count),
    # What the agent itself asks for: see `worker.compaction`.
    _rule(r"write\s+a\s+summary\s+of\s+this\s+conversation\s+for\s+yourself:.*", lambda _: [Summarize()]),
    _rule(
        r"(?:write|create)\s+(?:the\s+|a\s+)?(?:file\s+)?(?P<path>[^:]+?)\s*:(?!//)\s?(?P<text>.*)",
        lambda match: [Call("write_file", {"path": _unquoted(match["path"]), "content": match["text"]})],
    ),
    _rule(
        r"write\s+(?P<text>.+)\s+(?:in)?to\s+(?:the\s+)?(?:file\s+)?(?P<path>\S+)",
        lambda match: [
            Call("write_file", {"path": _name(match["path"]), "content": _unquoted(match["text"])})
        ],
    ),
    _rule(
        r"replace\s+(?P<old>.+?)\s+with\s+(?P<new>.*?)\s+in\s+(?:the\s+)?(?:file\s+)?(?P<path>\S+)", _replace
    ),
    _rule(r"replace\s+(?P<old>.+?)\s+with\s+(?P<new>.*)\s+in\s+(?P<path>.+)", _replace),
    _rule(
        r"(?:run|execute)(?:\s+the\s+command)?(?:\s*:|\s)\s*(?P<what>.+)", _call("bash", "command", _unquoted)
    ),
    _rule(
        r"(?:list|ls)(?:\s+(?:me|all|the))*(?:\s+(?:files|entries|contents?|folder|directory))*"
        r"(?:\s+(?:in|of|under|from))?(?:\s+the)?(?:\s+(?:files|folder|directory))?(?:\s+(?P<path>.+)|[.!?]*)",
        _list,
    ),
    _rule(
        rf"(?:read\s+{_OF_FILE}(?P<what>.+)|(?:show|open|cat|view)\s+{_OF_FILE}(?P<one>{_ONE}))",
        lambda match: [Call("read_file", {"path": _name(match["what"] or match["one"])})],
    ),
    _rule(r"(?:search|grep)\s+(?:(?:for|the\s+word)\s+)*(?P<what>.+)", _call("grep", "pattern")),
    _rule(
        r"(?:find|glob)\s+(?:(?:all|the|me)\s+)*(?:files?\s+)?(?:(?:named|called|matching|like)\s+)?"
        rf"(?P<what>{_ONE})",
        _call("glob", "pattern"),
    ),
    _rule(r"(?:fetch|download)\s+(?:the\s+)?(?:(?:url|page)\s+)?(?P<what>\S+)", _call("web_fetch", "url")),
    _rule(r"delegate(?:\s*:|\s)\s*(?P<what>.+)", _call("agent", "prompt", str.strip)),
    _rule(r"plan(?:\s*:|\s)\s*(?P<entries>.+)", _plan),
    _rule(r".*\bsummar(?:y|i[sz]e)\b.*", lambda _: [Summarize()]),
    _rule(r"(?:help|hello|hi|hey|who\s+are\s+you|what\s+can\s+you\s+do)\s*[.!?]*", lambda _: [Explain()]),
]

EXPLANATION: Final = """\
I am the offline model of iac-code: built in, deterministic, without a network. I follow plain \
instructions, one a line:
- list [PATH]
- read FILE
- run COMMAND
- write FILE: TEXT
- replace A with B in FILE
- search WORD
- find PATTERN
- fetch URL
- delegate TASK
- plan A; B; C
- say TEXT
- count to N [slowly]

For a real model, set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN (or run `iac-code login`), then choose \
one with the option `model`."""
