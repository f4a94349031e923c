"""What a run is made of, by seed alone: which strikes fall when, and what each turn of a session asks for.

Pure. The same seed gives the same strikes and prompts; what they meet depends on the machine's timing.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["kill", "stop", "hang", "die", "zygote", "front"]

PACE: Final = 0.04
"""Seconds between the pieces of text that the double streams."""
A_PIECE: Final = 3
"""Deltas of one piece."""

_EVERY: Final = 0.2
_APART: Final = 1.5
"""Seconds between two strikes at one session: without progress between them it is, rightly, given up."""
_ZYGOTE_EVERY: Final = 16.0
"""Three deaths of the zygote in 30 s would make workers start as plain subprocesses, 2 s of CPU each."""
_KINDS: Final[dict[Kind, int]] = {"kill": 12, "stop": 3, "hang": 2, "die": 5}
"""Weights. `hang` and `die` are faults armed at a named point of the code; whoever comes by is struck."""

FAULTS: Final[dict[Kind, tuple[str, ...]]] = {
    "hang": ("gil=60@turn.begin", "stall=60@turn.begin", "stall=60@turn.ended"),
    "die": (
        "kill@journal.append",
        "kill@journal.written",
        "kill@journal.synced",
        "kill@turn.begin",
        "kill@turn.ended",
        "kill@worker.ready",
    ),
}
_PASSES: Final = 40
"""A fault counts how often its process came by; this many passes of one worker can be struck."""


@dataclass(frozen=True, slots=True)
class Strike:
    """`at` is in seconds of the run's clock; `session` an index, or -1; `fault` one of FAULTS, or empty."""

    at: float
    kind: Kind
    session: int = -1
    fault: str = ""


def strikes(seed: int, sessions: int, seconds: float) -> list[Strike]:
    """About five a second, in order."""
    rng = random.Random(f"strikes {seed}")
    found = [Strike(seconds / 2, "front")]
    zygote = rng.uniform(1.0, min(_ZYGOTE_EVERY, seconds / 2))
    while zygote < seconds - 1:
        found.append(Strike(zygote, "zygote"))
        zygote += rng.uniform(_ZYGOTE_EVERY, 1.25 * _ZYGOTE_EVERY)
    free = [0.0] * sessions
    at = 0.0
    while (at := at + rng.expovariate(1 / _EVERY)) < seconds:
        kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
        if kind in FAULTS:
            found.append(Strike(at, kind, fault=rng.choice(FAULTS[kind])))
            continue
        session = rng.choice([i for i in range(sessions) if free[i] <= at] or range(sessions))
        free[session] = at + _APART
        found.append(Strike(at, kind, session))
    return sorted(found, key=lambda strike: strike.at)


def fault_list(folder: str) -> str:
    """IAC_CODE_FAULTS for a run: every fault that a plan may hold, armed by `file_name` in `folder`."""
    return ",".join(
        f"{fault}#{n}:{folder}/{file_name(fault)}"
        for faults in FAULTS.values()
        for fault in faults
        for n in range(1, _PASSES + 1)
    )


def file_name(fault: str) -> str:
    """The file that arms a fault."""
    return fault.partition("@")[0].partition("=")[0] + "-" + fault.partition("@")[2]


@dataclass(frozen=True, slots=True)
class Script:
    """A turn: its prompt, and how many deltas each reply of the model has."""

    name: str
    prompt: str
    replies: tuple[int, ...]


def script(seed: int, session: int, number: int) -> Script:
    """The `number`-th turn of a session: replies of numbered deltas, with tool calls between them."""
    rng = random.Random(f"script {seed} {session} {number}")
    name = f"s{session}-{number}"
    lines = [f"turn {name}."]
    replies: list[int] = []
    for reply in range(rng.randint(1, 3)):
        if reply:
            lines += _calls(rng, f"{name}-{reply}")
        pieces = rng.randint(4, 16)
        for piece in range(pieces):
            tokens = (f"<{reply}:{piece * A_PIECE + i}>" for i in range(A_PIECE))
            lines += [f"@text {' '.join(tokens)}", f"@sleep {PACE}"]
        replies.append(pieces * A_PIECE)
    lines.append(f"@text {done(name)}")
    return Script(name, "\n".join(lines), tuple(replies))


def done(name: str) -> str:
    """The last words of a turn."""
    return f"[done {name}]"


def _calls(rng: random.Random, name: str) -> list[str]:
    """One or two commands, each with an effect that can be counted; sometimes a read beside them."""
    lines = []
    for call in range(rng.choice([1, 1, 2])):
        command = f"echo {name}.{call} >> effects; sleep {rng.choice([0, 0.1, 0.4])}"
        lines.append(f"@tool bash {json.dumps({'command': command})}")
    if rng.random() < 0.3:
        lines.append(f"@tool list_files {json.dumps({'path': '.'})}")
    return lines
