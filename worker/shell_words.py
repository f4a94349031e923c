"""A word of a shell command as the program would get it, as far as that can be told. Pure.

What only the running shell knows (a variable, a substitution) is a `DYNAMIC` character in the text.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Node

DYNAMIC: Final = "\0"
_QUOTED: Final = "\1"
"""Stands before a character that has no special meaning. Commands with such characters are refused."""
_SPECIAL: Final = frozenset("*?[{},~")
_ALTERNATIVES: Final = 64
"""Braces of one word that are expanded; what is behind more of them is dynamic."""
_EXPANSIONS: Final = frozenset(
    ("command_substitution", "process_substitution", "arithmetic_expansion", "expansion", "simple_expansion")
)


@dataclass(frozen=True, slots=True)
class Word:
    """`text` without quotes. `pattern` is the same as a glob pattern, if the shell will expand it."""

    text: str
    pattern: str | None = None

    @property
    def dynamic(self) -> bool:
        """Part of it is known only when the command runs."""
        return DYNAMIC in self.text


def words_of(node: Node, variables: Mapping[str, str]) -> list[Word]:
    """The words that a node becomes: several if it has braces. `variables` are those of known value."""
    return [_word(raw) for raw in _braces(_raw(node, variables))]


def _word(raw: str) -> Word:
    if raw.startswith(_QUOTED + "~"):
        # A quoted tilde is a name and not the home folder.
        raw = "./" + raw
    # `~-` and the like are folders that the shell was in.
    raw = re.sub(r"^~[-+]?\d*(?=[/+-]|$)(?<!~)", DYNAMIC, raw) if raw.startswith("~") else raw
    text = raw.replace(_QUOTED, "")
    if not re.search(rf"(?<!{_QUOTED})[*?\[]", raw):
        return Word(text)
    return Word(text, re.sub(rf"{_QUOTED}([*?\[])", r"[\1]", raw).replace(_QUOTED, ""))


def _raw(node: Node, variables: Mapping[str, str]) -> str:
    """The node's text, with `_QUOTED` before each special character that was quoted."""
    text = (node.text or b"").decode("utf-8", "replace")
    match node.type:
        case "raw_string":
            return _quoted(text[1:-1])
        case "ansi_c_string":
            return _quoted(_ansi_c(text[2:-1]))
        case "string" | "translated_string":
            return _in_quotes(node, variables)
        case "concatenation" | "command_name" | "brace_expression":
            parts = [_raw(child, variables) for child in node.children]
            return "".join(parts) if parts else _unescaped(text)
        case "simple_expansion" | "expansion":
            return _variable(node, variables)
        case kind if kind in _EXPANSIONS:
            return DYNAMIC
        case _:
            return _unescaped(text)


def _in_quotes(node: Node, variables: Mapping[str, str]) -> str:
    """Between double quotes. White space between two children has no node of its own."""
    source = node.text or b""
    parts: list[str] = []
    at = node.start_byte
    for child in node.children:
        gap = source[at - node.start_byte : child.start_byte - node.start_byte]
        parts.append(_quoted(gap.decode("utf-8", "replace")))
        at = child.end_byte
        if child.type == "string_content":
            content = (child.text or b"").decode("utf-8", "replace")
            parts.append(_quoted(re.sub(r'\\([\\"$`]|\n)', lambda m: m[1].strip("\n"), content)))
        elif child.type in _EXPANSIONS:
            parts.append(_quoted(_raw(child, variables)))
        elif child.type not in ('"', "$"):
            parts.append(_quoted((child.text or b"").decode("utf-8", "replace")))
    return "".join(parts)


def _variable(node: Node, variables: Mapping[str, str]) -> str:
    """A variable's value where it is known and taken as it is, as in `$X` and `${X}`."""
    inner = [child for child in node.children if child.type not in ("$", "${", "}")]
    if not inner or inner[0].type != "variable_name":
        return DYNAMIC
    known = variables.get((inner[0].text or b"").decode("utf-8", "replace"))
    if len(inner) == 1:
        return DYNAMIC if known is None else known
    operator = (inner[1].text or b"").decode("utf-8", "replace")
    if known and operator in (":-", "-", ":=", "=", ":?", "?"):
        return known
    # What is left of a path when its end is cut off is a folder above.
    return posixpath.join(known, "..") if known and operator.startswith("%") else DYNAMIC


def _quoted(text: str) -> str:
    return "".join(_QUOTED + c if c in _SPECIAL else c for c in text)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\(.|\n|$)", lambda m: "" if m[1] == "\n" else _quoted(m[1]), text)


_ANSI: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "?": "?"}


def _ansi_c(text: str) -> str:
    """Between `$'` and `'`. Characters that no path or option needs are `DYNAMIC`."""

    def replaced(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] in "xuU" and len(escape) > 1:
            code = int(escape[1:], 16)
        elif escape[0] in "01234567":
            code = int(escape, 8) & 0xFF
        else:
            return _ANSI.get(escape, DYNAMIC)
        return chr(code) if 0x20 <= code < 0x110000 else DYNAMIC

    escapes = r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.|\n)"
    return re.sub(escapes, replaced, text)


def _braces(raw: str) -> list[str]:
    """Alternatives (`{a,b}`) as words, a bounded number of them; sequences (`{1..3}`) are dynamic."""
    pending = [raw]
    done: list[str] = []
    for _ in range(_ALTERNATIVES):
        if not pending:
            break
        word = pending.pop()
        found = _innermost(word)
        if found is None:
            done.append(word)
            continue
        start, end = found
        inner = word[start + 1 : end]
        options = re.split(rf"(?<!{_QUOTED}),", inner)
        if len(options) == 1:
            options = [DYNAMIC if ".." in inner else f"{_QUOTED}{{{inner}{_QUOTED}}}"]
        pending += [word[:start] + option + word[end + 1 :] for option in reversed(options[:_ALTERNATIVES])]
    return done + [re.split(rf"(?<!{_QUOTED}){{", word)[0] + DYNAMIC for word in pending]


def _innermost(word: str) -> tuple[int, int] | None:
    """The first pair of unquoted braces with none between them."""
    start = None
    for i, character in enumerate(word):
        if character in "{}" and (i == 0 or word[i - 1] != _QUOTED):
            if character == "{":
                start = i
            elif start is not None:
                return start, i
    return None
