"""What a shell command's simple commands come to: what runs, which paths are named. Filled by `shell_walk`.

Pure: words go in, and paths come out absolute but not resolved.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from worker.shell_paths import implied_paths, paths_in
from worker.shell_programs import SHELLS, found_commands, inner_command, scope_of
from worker.shell_read_only import reads_only
from worker.shell_sweeps import Sweep, searches
from worker.shell_words import DYNAMIC, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATHS: Final = 1000
_MOST_WORDS: Final = 5000
"""Words of all commands, those of commands that run commands counted again; about 0.2 s."""
_DEEPEST: Final = 50
"""Commands that run commands (`sudo nice env …`)."""
SINKS: Final = re.compile(r"/dev/(null|zero|full|u?random|tty|std(in|out|err)|fd/\d+)")
"""Devices that anything may be read from or written to."""
_SYSTEM_PROGRAMS: Final = (
    *("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/", "/usr/lib/"),
    *(
        "/usr/libexec/",
        "/lib/",
        "/opt/",
        "/nix/store/",
        "/snap/",
        "/System/",
        "/Applications/",
        "/home/linuxbrew/",
    ),
)

Folders = frozenset[str]
"""Working directories that the shell may be in."""


class UnreadableError(Exception):
    """The command cannot be read; `str()` is the reason, as a phrase."""


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A path that a command names: absolute, not resolved. With `pattern` it is a glob pattern."""

    path: str
    write: bool
    pattern: bool = False


@dataclass(slots=True)
class Findings:
    """What was found so far."""

    commands: list[tuple[str, ...]] = field(default_factory=list)
    scopes: list[str | None] = field(default_factory=list)
    paths: dict[NamedPath, None] = field(default_factory=dict)
    unresolved: list[str] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    read_only: bool = True
    last_shell: int = -1
    """The number of the newest command that has the name of a shell in it."""
    piped: bool = False
    """The command that comes next has an input."""
    _words: int = 0

    def simple_command(
        self, argv: Sequence[Word], assigned: Sequence[str], folders: Folders, depth: int = 0
    ) -> list[str]:
        """A simple command: its words, and the variables set for it. Returns texts that it runs as commands.

        Raises UnreadableError where too much is nested or named.
        """
        if depth > _DEEPEST:
            raise UnreadableError("it is nested too deep to be read")
        self._words += len(argv)
        if self._words > _MOST_WORDS:
            raise UnreadableError("it is too long to be read")
        head = argv[0]
        program = posixpath.basename(head.text)
        only_reads = not assigned and reads_only(argv)
        self.read_only &= only_reads
        words = (word.text.replace(DYNAMIC, "…") for word in argv)
        self.commands.append((*(f"{name}=" for name in assigned), *words))
        if any(posixpath.basename(word.text) in SHELLS for word in argv):
            self.last_shell = len(self.commands) - 1
        texts = _texts(program, argv)
        told = not any(DYNAMIC in text for text in texts)
        self.scopes.append(scope_of(argv, assigned) if told else None)
        if "/" in head.text and not is_system_program(head.text):
            self.name(head, folders, write=False)
        named = [*paths_in(program, argv), *implied_paths(program, argv)]
        for path in named:
            self.name(path, folders, write=not only_reads)
        search = searches(program, argv, piped=self.piped) if only_reads else None
        if search is not None:
            through = tuple(_joined(folder, path.text) for path in named for folder in folders)
            self.sweeps.append(Sweep(through, tuple(folders), *search))
        texts = [text for text in texts if DYNAMIC not in text]
        inner = inner_command(program, argv)
        for found in [inner] if inner is not None else found_commands(program, argv):
            texts += self.simple_command(found, (), folders, depth + 1)
        return texts

    def name(self, word: Word, folders: Folders, *, write: bool) -> None:
        """The command names a path."""
        text = word.text
        if not text or SINKS.fullmatch(text):
            return
        if word.dynamic:
            self.unresolved.append(text.replace(DYNAMIC, "…"))
            before, after = text.split(DYNAMIC, 1)
            if _climbs(after):
                # From wherever it is, it leads up and away; in the best case from the working directory.
                text = f"{before}./{after.replace(DYNAMIC, 'x')}"
            elif re.match(r"/|~|(.*/)?\.\.", before):
                text = posixpath.dirname(before) or before
            else:
                return
        for folder in folders:
            if word.pattern is not None and not word.dynamic:
                self._add(NamedPath(_joined(folder, word.pattern), write, pattern=True))
                self._add(NamedPath(_joined(folder, _before_pattern(word.pattern)), write))
                if _climbs(word.pattern):
                    self._add(NamedPath(_joined(folder, _as_names(word.pattern)), write))
            else:
                self._add(NamedPath(_joined(folder, text), write))

    def _add(self, path: NamedPath) -> None:
        self.paths[path] = None
        if len(self.paths) > _PATHS:
            raise UnreadableError("it names too many paths to be judged")


def is_system_program(path: str) -> bool:
    """Whether a path lies where the system keeps programs, which may be run from there."""
    return posixpath.normpath(path).startswith(_SYSTEM_PROGRAMS)


def moved(argv: Sequence[Word], folders: Folders) -> Folders:
    """Where `cd`, `pushd` or `popd` leads from `folders` when it succeeds, as far as that can be told."""
    operands = [word for word in argv[1:] if not re.match(r"[-+].", word.text)]
    if not operands and argv[0].text == "cd":
        return frozenset((_joined("/", "~"),))
    if argv[0].text == "popd" or not operands:
        return folders
    target = operands[0]
    if target.text == "-" or target.dynamic or target.pattern:
        return folders
    return frozenset(_joined(folder, target.text) for folder in folders)


def _texts(program: str, argv: Sequence[Word]) -> list[str]:
    """Words that a program runs as commands."""
    texts = [word.text for word in argv]
    if program == "eval":
        return [" ".join(texts[1:])]
    if program == "env":
        return [text for before, text in itertools.pairwise(texts) if before in ("-S", "--split-string")]
    if program == "trap":
        return [text for text in texts[1:2] if not text.startswith("-")]
    if program in SHELLS or program in ("su", "flock", "script", "watch", "parallel", "xargs"):
        at = next((i for i, text in enumerate(texts) if re.fullmatch(r"-[a-zA-Z]*c", text)), None)
        return texts[at + 1 : at + 2] if at is not None else []
    return []


def _climbs(text: str) -> bool:
    return ".." in text.split("/")


def _as_names(pattern: str) -> str:
    """A glob pattern with each part that matches names as one name, so that `..` after it can be followed."""
    return "/".join("x" if re.search(r"[*?\[]", part) else part for part in pattern.split("/"))


def _joined(folder: str, text: str) -> str:
    return os.path.join(folder, os.path.expanduser(text))


def _before_pattern(pattern: str) -> str:
    """The folder in which a glob pattern starts to match; a part that may match `..` counts as that."""
    fixed: list[str] = []
    for part in pattern.split("/"):
        if re.search(r"[*?\[]", part):
            if re.match(r"\.[.*?\[]", part):
                fixed.append("..")
            break
        fixed.append(part)
    return "/".join(fixed) or ("/" if pattern.startswith("/") else ".")
