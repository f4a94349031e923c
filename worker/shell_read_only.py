"""Which simple commands can be told to be read-only: they change no file and run no other program. Pure.

Told by name, options and operands, and strictly: what is not known to be harmless counts as writing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.shell_words import Word

_ALWAYS: Final = frozenset(
    [
        "ls",
        "pwd",
        "cat",
        "head",
        "tail",
        "wc",
        "stat",
        "du",
        "df",
        "which",
        "type",
        "true",
        "false",
        "test",
        "[",
        ":",
        "uname",
        "whoami",
        "id",
        "groups",
        "nl",
        "cut",
        "tr",
        "rev",
        "tac",
        "column",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "cmp",
        "comm",
        "join",
        "paste",
        "fold",
        "expand",
        "seq",
        "sleep",
        "md5sum",
        "sha1sum",
        "sha256sum",
        "sha512sum",
        "cksum",
        "b2sum",
        "strings",
        "od",
        "hexdump",
        "jq",
        "cd",
        "echo",
        "printf",
        "printenv",
        "nproc",
        "uptime",
        "free",
        "ps",
        "pgrep",
        "egrep",
        "fgrep",
        "grep",
        "diff",
    ]
)
"""With whatever options: none of theirs writes or runs anything."""

_FORBIDDEN: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    # Program: short options, and long ones (any abbreviation too), that write or run something.
    "rg": ("", ("--pre", "--pre-glob", "--hostname-bin")),
    "sort": ("oT", ("--output", "--compress-program", "--temporary-directory", "--files0-from")),
    "tree": ("oR", ("--output",)),
    "file": ("C", ("--compile",)),
    "fd": ("xX", ("--exec", "--exec-batch")),
}

_FIND_WORDS: Final = frozenset(
    (
        "-exec",
        "-execdir",
        "-ok",
        "-okdir",
        "-delete",
        "-fprint",
        "-fprint0",
        "-fprintf",
        "-fls",
        "-files0-from",
    )
)

_GIT: Final = frozenset(
    [
        "status",
        "log",
        "diff",
        "show",
        "blame",
        "annotate",
        "ls-files",
        "ls-tree",
        "rev-parse",
        "rev-list",
        "describe",
        "shortlog",
        "cat-file",
        "name-rev",
        "merge-base",
        "show-ref",
        "for-each-ref",
        "count-objects",
        "whatchanged",
        "diff-tree",
        "diff-index",
        "diff-files",
        "check-ignore",
        "check-attr",
        "grep",
        "cherry",
        "version",
    ]
)
_GIT_FORBIDDEN: Final = (
    "--output",
    "--ext-diff",
    "--textconv",
    "--open-files-in-pager",
    "--contents",
    "--filters",
)
_GIT_LISTS: Final = {
    # Subcommands that change nothing with these words after them, or with none.
    "branch": frozenset(
        ("-a", "-r", "-v", "-vv", "--list", "--all", "--remotes", "--show-current", "--verbose")
    ),
    "tag": frozenset(("-l", "--list")),
    "remote": frozenset(("-v", "--verbose")),
    "stash": frozenset(("list",)),
    "worktree": frozenset(("list",)),
}


def reads_only(argv: Sequence[Word]) -> bool:
    """Whether a simple command can be told to be read-only."""
    if not argv or any(word.dynamic for word in argv):
        return False
    texts = [word.text for word in argv]
    program = re.sub(r"^(/usr)?/bin/", "", texts[0])
    options = texts[1:]
    if program in ("test", "[", "printf") and any(option[:2] in ("-v", "-R") for option in options):
        # The name of a variable may hold an index, and an index a command that is run.
        return False
    if program in _ALWAYS:
        return True
    if any(word.pattern is not None and word.pattern[0] in "*?[-" for word in argv[1:]):
        # A file may be named like an option.
        return False
    if program in _FORBIDDEN:
        short, long = _FORBIDDEN[program]
        return not any(_is_forbidden(option, short, long) for option in options)
    match program:
        case "find":
            return not _FIND_WORDS.intersection(options)
        case "git":
            return _git_reads_only(options)
        case "sed":
            return (
                len(options) >= 2
                and options[0] == "-n"
                and bool(re.fullmatch(r"(\d+|\$)(,(\d+|\$))?p", options[1]))
                and not any(option.startswith("-") for option in options[2:])
            )
        case "uniq":
            return sum(not option.startswith("-") for option in options) <= 1
        case "date":
            return all(option == "-u" or option.startswith(("+", "-I")) for option in options)
        case "hostname" | "env":
            return not options
    return False


def _is_forbidden(option: str, short: str, long: Sequence[str]) -> bool:
    if option.startswith("--"):
        name = option.split("=")[0]
        return len(name) > 2 and any(forbidden.startswith(name) for forbidden in long)
    return len(option) > 1 and option[0] == "-" and any(letter in option for letter in short)


def _git_reads_only(options: Sequence[str]) -> bool:
    options = list(options)
    while options and options[0] in ("-C", "--no-pager", "-P"):
        del options[: 2 if options[0] == "-C" else 1]
    if not options:
        return False
    subcommand, rest = options[0], options[1:]
    if subcommand in _GIT_LISTS:
        return set(rest) <= _GIT_LISTS[subcommand] and (subcommand not in ("stash", "worktree") or bool(rest))
    if subcommand == "grep" and any(re.match(r"-\w*O", option) for option in rest):
        return False
    return subcommand in _GIT and not any(_is_forbidden(option, "", _GIT_FORBIDDEN) for option in rest)
