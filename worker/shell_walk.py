"""The walk through a bash command's syntax tree: statements, redirects, substitutions, and where `cd` leads.

Bounded in size, depth and time for any input. What it finds goes to `shell_findings`.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Final

import tree_sitter_bash
from tree_sitter import Language, Parser

from worker.shell_findings import SINKS, Findings, UnreadableError, is_system_program, moved
from worker.shell_paths import assigned_paths, paths_in
from worker.shell_words import DYNAMIC, Word, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from worker.shell_findings import Folders

_LONGEST: Final = 32_768
_PIPES: Final = 2000
"""Bars in a command. tree-sitter takes 3 s for 8,000 of them without a chance to stop it, 0.2 s for 2,000."""
_BACKQUOTES: Final = 500
"""Each makes it read anew what follows, if a quote is left open: 32 s for 10,000 of them, 0.1 s for 700."""
_PARSING: Final = 0.2
"""Seconds for parsing, which is a matter of 0.1 ms for an ordinary command."""
_DEEPEST: Final = 120
_NESTED: Final = 5
"""Commands within strings within commands (`bash -c "eval …"`)."""
_FOLDERS: Final = 8
"""Working directories that a command may be in at one point."""
_LANGUAGE: Final = Language(tree_sitter_bash.language())

_WORDS: Final = frozenset(
    (
        *("word", "number", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation"),
        *("simple_expansion", "expansion", "brace_expression", "extglob_pattern"),
    )
)
_READ_ONLY_NODES: Final = frozenset(
    ("program", "list", "pipeline", "command", "negated_command", "redirected_statement", "comment")
)
_STRAIGHT: Final = frozenset(
    (
        "program",
        "compound_statement",
        "negated_command",
        "subshell",
        "command_substitution",
        "process_substitution",
    )
)
"""Nodes whose children run one after the other, each once."""


def _tree(command: str) -> Node:
    if len(command) > _LONGEST or command.count("|") > _PIPES or command.count("`") > _BACKQUOTES:
        raise UnreadableError("it is too long to be read")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", command):
        raise UnreadableError("it has control characters")
    try:
        source = command.encode()
    except UnicodeEncodeError:
        raise UnreadableError("it has characters that no text has") from None
    end = time.monotonic() + _PARSING
    try:
        # Only a parse that reads through a function can be stopped.
        tree = Parser(_LANGUAGE).parse(
            lambda offset, _: source[offset:], progress_callback=lambda _, __: time.monotonic() > end
        )
    except ValueError:
        raise UnreadableError("it takes too long to be read") from None
    return tree.root_node


class Walk:
    """One walk through a command. Methods return where the shell may be after success, and after failure."""

    def __init__(self) -> None:
        self.unreadable = ""
        self.found = Findings()
        self._variables: dict[str, str] = {"HOME": os.path.expanduser("~"), "PWD": "."}
        self._nesting = 0

    def nested(self, command: str, folders: Folders, depth: int) -> None:
        """A command as text: the whole one, or one within it."""
        if self._nesting >= _NESTED:
            raise UnreadableError("it is nested too deep to be read")
        root = _tree(command)
        if root.has_error:
            self.unreadable = "it cannot be read as bash"
        self._nesting += 1
        self._statement(root, folders, depth)
        self._nesting -= 1

    def _statement(self, node: Node, folders: Folders, depth: int) -> tuple[Folders, Folders]:
        if depth > _DEEPEST:
            raise UnreadableError("it is nested too deep to be read")
        if node.type not in _READ_ONLY_NODES or any(child.type == "&" for child in node.children):
            self.found.read_only = False
        match node.type:
            case "command":
                return self._command(node, folders, depth + 1)
            case "list":
                return self._list(node, folders, depth + 1)
            case "negated_command":
                ok, failed = self._sequence(node, folders, depth + 1)
                return failed, ok
            case "redirected_statement":
                return self._redirected(node, folders, depth + 1)
            case "subshell" | "pipeline" | "command_substitution" | "process_substitution":
                if node.type == "pipeline":
                    for number, child in enumerate(self._each(node)):
                        self.found.piped = number > 0
                        self._statement(child, folders, depth + 1)
                    self.found.piped = False
                else:
                    self._sequence(node, folders, depth + 1)
                return folders, folders
            case _:
                return self._sequence(node, folders, depth + 1)

    def _each(self, node: Node) -> list[Node]:
        return [child for child in node.children if child.is_named and child.type != "comment"]

    def _sequence(self, node: Node, folders: Folders, depth: int) -> tuple[Folders, Folders]:
        ok = failed = folders
        branches = node.type not in _STRAIGHT
        for child in self._each(node):
            before = ok | failed
            ok, failed = self._part(child, before, depth)
            if branches:
                # It may not run at all, or run again from where it led to.
                ok, failed = ok | before, failed | before
            if len(ok | failed) > _FOLDERS:
                raise UnreadableError("it changes folders too often to be followed")
        return ok, failed

    def _part(self, node: Node, folders: Folders, depth: int) -> tuple[Folders, Folders]:
        if node.type in _WORDS:
            self._loose(node, folders, depth)
        elif node.type == "variable_assignment":
            self._assign(node, folders, depth)
        elif node.type == "file_redirect":
            self._redirect(node, folders, depth)
        elif node.type == "case_item":
            patterns = {child.id for child in node.children_by_field_name("value")}
            after = folders
            for child in self._each(node):
                if child.id not in patterns:
                    ok, failed = self._part(child, after, depth + 1)
                    after = after | ok | failed
            return after, after
        elif node.type not in ("variable_name", "heredoc_start", "heredoc_end", "regex", "test_operator"):
            return self._statement(node, folders, depth)
        return folders, folders

    def _list(self, node: Node, folders: Folders, depth: int) -> tuple[Folders, Folders]:
        parts = self._each(node)
        if len(parts) != 2:
            return self._sequence(node, folders, depth)
        left, right = parts
        operator = next((child.type for child in node.children if child.type in ("&&", "||")), ";")
        ok, failed = self._part(left, folders, depth)
        if operator == "&&":
            ok_right, failed_right = self._part(right, ok, depth)
            return ok_right, failed | failed_right
        if operator == "||":
            ok_right, failed_right = self._part(right, failed, depth)
            return ok | ok_right, failed_right
        return self._part(right, ok | failed, depth)

    def _redirected(self, node: Node, folders: Folders, depth: int) -> tuple[Folders, Folders]:
        body = node.child_by_field_name("body")
        first = len(self.found.commands)
        after = self._part(body, folders, depth) if body is not None else (folders, folders)
        for child in self._each(node):
            if body is None or child.id != body.id:
                self._redirection(child, folders, depth, first)
        return after

    def _redirection(self, node: Node, folders: Folders, depth: int, first: int) -> None:
        """A redirect of the commands from number `first` on. What a shell is given to run is read too."""
        if node.type == "file_redirect":
            self._redirect(node, folders, depth)
            return
        self.found.read_only = False
        texts: list[str] = []
        for child in self._each(node):
            if child.type == "heredoc_body":
                texts.append((child.text or b"").decode("utf-8", "replace"))
                self._inner(child, folders, depth)
            elif node.type == "herestring_redirect":
                for word in words_of(child, self._variables):
                    texts.append(word.text)
                    for path in assigned_paths(word):
                        self.found.name(path, folders, write=False)
                self._inner(child, folders, depth)
            elif child.type == "file_redirect":
                self._redirect(child, folders, depth)
            elif child.type not in ("heredoc_start", "heredoc_end", "file_descriptor"):
                self._part(child, folders, depth)
        if self.found.last_shell >= first:
            for text in texts:
                self.nested(text, folders, depth)

    def _redirect(self, node: Node, folders: Folders, depth: int) -> None:
        operator = next((child.type for child in node.children if not child.is_named), ">")
        target = node.child_by_field_name("destination")
        if target is None:
            return
        for word in words_of(target, self._variables):
            duplicates = operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", word.text)
            if not duplicates:
                self.found.name(word, folders, write=operator not in ("<", "<&"))
                if not SINKS.fullmatch(word.text):
                    self.found.read_only = False
        self._inner(target, folders, depth)

    def _assign(self, node: Node, folders: Folders, depth: int) -> str:
        """A variable is set; returns its name."""
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        name = (name_node.text or b"").decode("utf-8", "replace") if name_node else ""
        self.found.read_only = False
        text = DYNAMIC
        if value is None:
            text = ""
        elif value.type in _WORDS:
            words = words_of(value, self._variables)
            text = words[0].text if len(words) == 1 else DYNAMIC
            for word in words:
                for path in assigned_paths(word):
                    if not is_system_program(f"{path.text}/x"):
                        self.found.name(path, folders, write=False)
            self._inner(value, folders, depth)
        else:
            self._part(value, folders, depth)
        # Set twice, it depends on the way that the shell takes.
        self._variables[name] = text if name not in self._variables else DYNAMIC
        return name

    def _loose(self, node: Node, folders: Folders, depth: int) -> None:
        """A word that is no command's: of a loop, a test, an array."""
        for word in words_of(node, self._variables):
            for path in paths_in("", [Word(""), word]):
                self.found.name(path, folders, write=False)
        self._inner(node, folders, depth)

    def _inner(self, node: Node, folders: Folders, depth: int) -> None:
        """Commands and words within a word: substitutions, and defaults of variables."""
        if depth > _DEEPEST:
            raise UnreadableError("it is nested too deep to be read")
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._statement(child, folders, depth + 1)
            elif node.type == "expansion" and child.type in _WORDS:
                self._loose(child, folders, depth + 1)
            else:
                self._inner(child, folders, depth + 1)
        if node.type in ("command_substitution", "process_substitution"):
            self._statement(node, folders, depth + 1)
        if node.type in ("simple_expansion", "expansion"):
            self.found.read_only = False

    def _command(self, node: Node, folders: Folders, depth: int) -> tuple[Folders, Folders]:
        argv: list[Word] = []
        assigned: list[str] = []
        redirects: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assigned.append(self._assign(child, folders, depth))
            elif child.type.endswith("_redirect"):
                redirects.append(child)
            elif child.type in ("process_substitution", "command_substitution"):
                self._statement(child, folders, depth)
                argv.append(Word(DYNAMIC))
            elif child.is_named or child.type != "$":
                argv += words_of(child, self._variables)
                self._inner(child, folders, depth)
        first = len(self.found.commands)
        if argv:
            for text in self.found.simple_command(argv, assigned, folders):
                self.nested(text, folders, depth)
        for redirect in redirects:
            self._redirection(redirect, folders, depth, first)
        if not argv or argv[0].text not in ("cd", "pushd", "popd"):
            return folders, folders
        if len(argv) == 1:
            self.found.name(Word("~"), folders, write=False)
        return moved(argv, folders), folders
