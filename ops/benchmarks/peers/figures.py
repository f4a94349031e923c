"""What is measured of each peer: names, units and how they are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ops.benchmarks.peers.timing import DELTAS


@dataclass(frozen=True, slots=True)
class Figure:
    """A column of the table."""

    key: str
    says: str
    unit: Literal["ms", "MB", "processes"]


TIMINGS: Final = (
    Figure("start", "start → initialize", "ms"),
    Figure("new_first", "session/new, first", "ms"),
    Figure("new_later", "session/new, later", "ms"),
    Figure("first_delta", "prompt → first delta", "ms"),
    Figure("deltas", f"{DELTAS:,} deltas in one session", "ms"),
    Figure("five", f"5 × {DELTAS:,} deltas at once", "ms"),
    Figure("cancel", "cancel → answer", "ms"),
)
MEMORY: Final = (
    Figure("memory_1", "memory, 1 session", "MB"),
    Figure("memory_10", "memory, 10 sessions", "MB"),
    Figure("memory_50", "memory, 50 sessions", "MB"),
)
GAPS: Final = (
    Figure("quiet", "B's worst gap, A quiet", "ms"),
    Figure("fifo", "… while A reads a FIFO", "ms"),
    Figure("regex", "… while A runs a bad regex", "ms"),
    Figure("print", "… while A prints 1.5 GB", "ms"),
    Figure("kill", "… while A runs kill -9 $PPID", "ms"),
)
LEFT: Final = Figure("left", "left 3 s after SIGKILL", "processes")
ALL: Final = (*TIMINGS, *MEMORY, *GAPS, LEFT)
GROUPS: Final = (
    ("Start, sessions, cancel", (*TIMINGS[:3], TIMINGS[6])),
    ("Streaming", TIMINGS[3:6]),
    ("Memory of the whole tree (PSS)", MEMORY),
    (
        "A neighbour's stream (20 ms a piece) while session A does something bad; what outlives SIGKILL",
        (*GAPS, LEFT),
    ),
)
