"""What is known of programs: which run others, and which have subcommands. Pure, data first."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

from worker.shell_words import DYNAMIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.shell_words import Word

SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish"))
INTERPRETERS: Final = SHELLS | frozenset(
    (
        "python",
        "python2",
        "python3",
        "pypy3",
        "node",
        "deno",
        "bun",
        "perl",
        "ruby",
        "php",
        "lua",
        "osascript",
    )
)

_RUNNERS: Final[dict[str, tuple[str, int]]] = {
    # Program: its short options that take a value, and the operands before the command that it runs.
    "busybox": ("", 0),
    "builtin": ("", 0),
    "caffeinate": ("tw", 0),
    "chrt": ("TPD", 1),
    "chroot": ("", 1),
    "command": ("", 0),
    "coproc": ("", 0),
    "doas": ("uC", 0),
    "env": ("uCS", 0),
    "exec": ("a", 0),
    "flock": ("wE", 1),
    "ionice": ("cnpPu", 0),
    "nice": ("n", 0),
    "nohup": ("", 0),
    "parallel": ("jNnPS", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "strace": ("oepsaE", 0),
    "sudo": ("ugphCrtTUDR", 0),
    "taskset": ("", 1),
    "time": ("of", 0),
    "timeout": ("sk", 1),
    "toybox": ("", 0),
    "unbuffer": ("", 0),
    "watch": ("nq", 0),
    "xargs": ("InPLdEsa", 0),
}

_WITH_SUBCOMMANDS: Final = frozenset(
    [
        "git",
        "docker",
        "podman",
        "kubectl",
        "helm",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "cargo",
        "go",
        "rustup",
        "terraform",
        "tofu",
        "aws",
        "gcloud",
        "az",
        "gh",
        "glab",
        "pip",
        "pip3",
        "uv",
        "poetry",
        "pipx",
        "conda",
        "brew",
        "apt",
        "apt-get",
        "dnf",
        "yum",
        "pacman",
        "systemctl",
        "make",
        "just",
        "task",
        "gradle",
        "gradlew",
        "mvn",
        "dotnet",
        "deno",
        "rails",
        "bundle",
        "gem",
        "composer",
        "php-artisan",
        "flutter",
        "dart",
        "swift",
        "mix",
    ]
)

_GIT_WITH_VALUE: Final = ("-C", "--git-dir", "--work-tree", "--namespace")


def inner_command(program: str, argv: Sequence[Word]) -> Sequence[Word] | None:
    """The command that a program like `sudo` or `xargs` runs for its caller; None if it is none such."""
    if program not in _RUNNERS:
        return None
    with_value, operands = _RUNNERS[program]
    if program == "command" and any(word.text in ("-v", "-V") for word in argv[1:2]):
        return None
    i = 1
    while i < len(argv):
        text = argv[i].text
        if text == "--":
            i += 1
            break
        if program in ("env", "sudo", "doas") and re.match(r"\w+=", text):
            i += 1
        elif len(text) > 1 and text.startswith("-"):
            i += 2 if not text.startswith("--") and text[-1] in with_value else 1
        else:
            break
    inner = argv[i + operands :]
    return inner or None


def found_commands(program: str, argv: Sequence[Word]) -> list[Sequence[Word]]:
    """The commands that `find` or `fd` runs on what it finds."""
    if program not in ("find", "fd", "fdfind"):
        return []
    flags = ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")
    found: list[Sequence[Word]] = []
    for i, word in enumerate(argv):
        if word.text in flags:
            end = next((j for j in range(i, len(argv)) if argv[j].text in (";", "+")), len(argv))
            found.append(argv[i + 1 : end])
    return [command for command in found if command]


def scope_of(argv: Sequence[Word], assigned: Sequence[str]) -> str | None:
    """What an "always" for this command covers: program and subcommand; None if nothing but the same command.

    Variables set for the command are part of it, since some decide what a program runs.
    """
    texts = [word.text for word in argv]
    program = posixpath.basename(texts[0]) if texts else ""
    if not program or any(DYNAMIC in text for text in texts[:2]):
        return None
    prefix = [f"{name}=" for name in assigned]
    if re.fullmatch(r"[A-Za-z]+[\d.]*", program) and program.rstrip("0123456789.") in _INTERPRETER_NAMES:
        if len(texts) > 2 and texts[1] == "-m" and re.fullmatch(r"[\w.]+", texts[2]):
            return " ".join([*prefix, program, "-m", texts[2]])
        if len(texts) < 2 or texts[1].startswith("-"):
            return None
        subcommand = texts[1]
    else:
        subcommand = _subcommand(program, texts)
    # A program named by a path is not the one of that name on PATH.
    words = [*prefix, texts[0], *subcommand.split(" ")]
    # Scopes are joined by ` && `, so that none may have such a thing within.
    if any(DYNAMIC in word or re.search(r"[\s&]", word) for word in words):
        return None
    return " ".join(word for word in words if word)


_INTERPRETER_NAMES: Final = frozenset(name.rstrip("0123456789.") for name in INTERPRETERS)


def _subcommand(program: str, texts: Sequence[str]) -> str:
    if program not in _WITH_SUBCOMMANDS:
        return ""
    i = 1
    while i < len(texts):
        text = texts[i]
        if program == "git" and text in _GIT_WITH_VALUE:
            i += 2
        elif program == "git" and (text == "-c" or text.startswith(("--exec-path=", "--config-env"))):
            # Settings given here may name programs to run, so they are a scope of their own.
            return text.split("=")[0]
        elif text.startswith("-"):
            i += 1
        else:
            script = texts[i + 1] if text == "run" and i + 1 < len(texts) else "-"
            return text if script.startswith("-") else f"run {script}"
    return ""
