"""Which paths the words of a command name: operands, values of options, paths within scripts. Pure.

Every word may be a path, since nobody knows all programs; what is clearly a search pattern, a script or
a URL is not. To take too much for a path costs a question, to miss one costs more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from worker.shell_words import Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATTERN_FIRST: Final = {
    # Programs whose first operand is a pattern or a script, with their short options that take a value.
    "grep": "ABCmefdD",
    "egrep": "ABCmefdD",
    "fgrep": "ABCmefdD",
    "rg": "ABCmefdgtTjrME",
    "sed": "ef",
    "awk": "Fvf",
    "gawk": "Fvf",
    "mawk": "Fvf",
    "jq": "f",
}
_ELSEWHERE: Final = ("--e", "--f", "--r")
"""Long options that give the pattern (--regexp, --expression, --file) or need none (--files) begin so."""

_IN_QUOTES: Final = re.compile(r"""["'`]((?:/|~/|\.\./)[^"'`\n]*)["'`]""")
_IN_SED: Final = re.compile(r"(?:^|[/;{}\s\d$])[rRwW]\s*((?:/|~/|\.\./)[^\s;}]+)")
_LONGEST: Final = 4096


def paths_in(program: str, argv: Sequence[Word]) -> Iterator[Word]:
    """Every path, or what may be one, in the words after the program's name."""
    pattern_at = _pattern_position(program, argv)
    for i, word in enumerate(argv[1:], 1):
        yield from _embedded(program, word.text)
        if i != pattern_at and len(word.text) <= _LONGEST:
            yield from _named(word)


def implied_paths(program: str, argv: Sequence[Word]) -> Iterator[Word]:
    """Paths that a command uses without naming them as such."""
    texts = [word.text for word in argv[1:]]
    if program == "dirname":
        yield from (Word(f"{word.text}/..", None) for word in argv[1:] if not word.text.startswith("-"))
    if program != "git":
        return
    # Of `revision:path` and `:path` the second is a file.
    yield from (Word(text.partition(":")[2]) for text in texts if ":" in text and "://" not in text)
    words = [text for text in texts if not text.startswith("-")]
    if words[:1] == ["config"] and not _READS_CONFIG.intersection(texts):
        # Much of it names programs that git runs; who the user is does not.
        if words[1:2] in (["get"], ["list"]) or (len(words) > 1 and words[1].startswith("user.")):
            return
        places = {"--global": "~/.gitconfig", "--system": "/etc/gitconfig"}
        yield Word(next((places[text] for text in texts if text in places), ".git/config"))


_READS_CONFIG: Final = frozenset(
    ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "--get-color")
)


def assigned_paths(word: Word) -> Iterator[Word]:
    """Paths in the value of a variable: those that are not below the working directory by themselves."""
    yield from _embedded("", word.text)
    for piece in re.split(r"[:\s]", word.text[:_LONGEST]):
        if piece.startswith(("/", "~")) or ".." in piece:
            yield Word(piece)


def _named(word: Word) -> Iterator[Word]:
    text = word.text
    if not text or text == "-":
        return
    if "://" in text:
        if "file://" in text:
            yield Word(text.split("file://", 1)[1])
        return
    if text.startswith("-"):
        value = _option_value(text)
        if value:
            yield Word(value.removeprefix("@"))
        return
    yield word
    # Of `from:to` the first is ours: volumes of containers, remote copies, search paths.
    for separator in ("=", ":", ","):
        first, found, rest = text.partition(separator)
        piece = rest if separator == "=" else first
        if found and piece.startswith(("/", "~", "..")):
            yield Word(piece)
    if "," in text and "=" in text:
        # `type=bind,src=/x,dst=/y`; what is in the container is not ours.
        for name, _, value in (part.partition("=") for part in text.split(",")):
            if value and name not in ("dst", "destination", "target"):
                yield Word(value)
    if re.match(r"(\w+=)?@.", text):
        # Programs that take data take it from a file so (`curl -d @x`).
        yield Word(text.partition("@")[2])


def _option_value(text: str) -> str:
    """`/x` of `--file=/x`, `-I/x` and `-o../x`."""
    if "=" in text:
        return text.partition("=")[2]
    attached = re.match(r"-+[A-Za-z0-9]*?((?:/|~|\.\./?).*)", text, re.DOTALL)
    if attached:
        return attached[1]
    # `-fx.y` and `-d@x`: what has no dot and no `@` is more likely a cluster of options.
    return text[2:] if re.match(r"-[A-Za-z]@|-[A-Za-z][^-]*\.", text) else ""


def _embedded(program: str, text: str) -> Iterator[Word]:
    if program == "sed":
        yield from (Word(found[1]) for found in _IN_SED.finditer(text))
    yield from (Word(found[1]) for found in _IN_QUOTES.finditer(text))


def _pattern_position(program: str, argv: Sequence[Word]) -> int | None:
    """The index of the word that is a pattern or a script."""
    if program not in _PATTERN_FIRST:
        return None
    with_value = _PATTERN_FIRST[program]
    operand: int | None = None
    i = 1
    while i < len(argv):
        text = argv[i].text
        if argv[i].dynamic or text.startswith(_ELSEWHERE):
            return None
        if text == "--":
            return i + 1 if operand is None else operand
        if text.startswith("--") or text == "-" or not text.startswith("-"):
            if not text.startswith("--") and operand is None:
                operand = i
            i += 1
            continue
        at = next((k for k, letter in enumerate(text[1:], 1) if letter in with_value), None)
        if at is not None and text[at] in "ef":
            # The pattern or script is given here, so every operand is a file.
            return i + 1 if text[at] == "e" and at == len(text) - 1 and operand is None else None
        i += 2 if at is not None and at == len(text) - 1 else 1
    return operand
