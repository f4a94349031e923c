"""The user's permission rules: which calls one is for. Pure; `permissions` decides what follows.

A rule names a tool (or a shell pattern of names) and may narrow it by a path pattern, by the beginning of
a command, or both. A rule that denies or asks is for a call of which any part matches; one that allows,
only for a call that matches whole.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pathspec import GitIgnoreSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from shared.settings import RuleSetting
    from worker.shell_reading import Reading
    from worker.tools.base import Access

Effect = Literal["allow", "ask", "deny"]
USER: Final = "the user's settings"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the settings.

    `path` is a pattern in the manner of .gitignore: with a slash from the working directory on (or
    absolute, or from `~`), without one at any depth; what it matches counts with all below it. `command` is
    the words that a simple command begins with.
    """

    effect: Effect
    tool: str
    path: str | None = None
    command: str | None = None
    source: str = USER
    """Where it stands, as a phrase."""


def rules_of(settings: Iterable[RuleSetting], source: str = USER) -> tuple[Rule, ...]:
    """Rules as they stand in a settings file."""
    return tuple(Rule(s.effect, s.tool, s.path, s.command, source) for s in settings)


def applies(rule: Rule, tool: str, accesses: Sequence[Access], shell: Reading | None, cwd: Path) -> bool:
    """Whether a rule is for a call that names these resolved paths, and for bash runs this command."""
    if not fnmatch.fnmatchcase(tool, rule.tool):
        return False
    every = all if rule.effect == "allow" else any
    if rule.path is not None:
        spec = _spec(rule.path, str(cwd))
        if not accesses or not every(spec.match_file(str(access.path)) for access in accesses):
            return False
    if rule.command is not None:
        begins = _words(rule.command)
        commands = shell.commands if shell is not None else ()
        strict = rule.effect == "allow"
        if not commands or not every(_begins(words, begins, strict=strict) for words in commands):
            return False
    return True


def allowed_path(rules: Iterable[Rule], tool: str, access: Access, cwd: Path) -> bool:
    """Whether a rule allows this tool this very path: then it may lie outside the roots."""
    return any(
        rule.effect == "allow" and rule.path is not None and applies(rule, tool, [access], None, cwd)
        for rule in rules
        if rule.command is None
    )


def _begins(words: Sequence[str], begins: Sequence[str], *, strict: bool) -> bool:
    """Whether a command begins so. If not `strict`, its variables and its program's folder do not count."""
    if not strict:
        words = list(words)
        while words and re.fullmatch(r"\w+=", words[0]):
            words = words[1:]
        if words and "/" not in begins[0]:
            words = [posixpath.basename(words[0]), *words[1:]]
    return list(words[: len(begins)]) == list(begins)


@functools.lru_cache(maxsize=256)
def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command)) or ("",)
    except ValueError:
        return tuple(command.split()) or ("",)


@functools.lru_cache(maxsize=256)
def _spec(pattern: str, cwd: str) -> GitIgnoreSpec:
    pattern = os.path.expanduser(pattern)
    pattern = f"/**/{pattern}" if "/" not in pattern.rstrip("/") else posixpath.join(cwd, pattern)
    return GitIgnoreSpec.from_lines([pattern])
