"""The peers' figures as tables and plots, beside each other in `results/`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ops.benchmarks.peers.agents import OURS
from ops.benchmarks.peers.figures import ALL, GROUPS, LEFT, Figure
from ops.benchmarks.results import FOLDER
from ops.benchmarks.svg import Bar, bars, figure

if TYPE_CHECKING:
    from pathlib import Path

_NAMED: Final = 3
"""Figures that a note names."""
Found = dict[str, Any]
"""What `ops/bench peers --json` prints."""


def keep(found: Found, folder: Path = FOLDER) -> None:
    """Write `peers.json`, `peers.md` and `peers-FIGURE.svg`, in place of those before."""
    folder.mkdir(exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (folder / "peers.md").write_text(document(found))
    for column in ALL:
        (folder / f"peers-{column.key}.svg").write_text(plot(found, column))


def document(found: Found) -> str:
    """`peers.md`: a table for each group of figures, each figure's plot, and why any is missing."""
    parts = [
        "# Beside other agents",
        f"Made by `{found['command']}`; do not edit. Medians (quartiles in `peers.json`) on "
        f"{found['load_before']['cores']} cores, load {found['load_before']['load_1_min']} before and "
        f"{found['load_after']['load_1_min']} after; {found['machine']['system']}. Every agent had the same "
        "prompts from the same client and the same text and calls from the same double on loopback, in the "
        "API that it speaks, in a new HOME, without a network beyond loopback. Agents alternate, run by run.",
    ]
    for title, columns in GROUPS:
        parts += [f"## {title}", _table(found, list(columns))]
        parts.append(" ".join(f"![{column.says}](peers-{column.key}.svg)" for column in columns))
    parts += ["## What is installed", _installed(found)]
    return "\n\n".join(parts) + "\n"


def table(found: Found) -> str:
    """All figures of all peers in one table."""
    return _table(found, list(ALL))


def _table(found: Found, columns: list[Figure]) -> str:
    rows = ["| | " + " | ".join(found["peers"]) + " |", "|---|" + "---:|" * len(found["peers"])]
    for column in columns:
        cells = [_cell(peer, column) for peer in found["peers"].values()]
        rows.append(f"| {column.says} ({column.unit}) | " + " | ".join(cells) + " |")
    return "\n".join([*rows, "", *(f"* {note}" for note in _notes(found, columns))]).rstrip()


def _notes(found: Found, columns: list[Figure]) -> list[str]:
    """Each peer's notes, one line for those that say the same of several figures."""
    lines = []
    for name, peer in found["peers"].items():
        told: dict[str, list[str]] = {}
        for column in columns:
            if note := peer["missing"] or peer["notes"].get(column.key):
                told.setdefault(note, []).append(column.says)
        for note, of in told.items():
            which = ", ".join(of) if len(of) <= _NAMED else f"{len(of)} of {len(columns)} figures"
            lines.append(f"{name}: {note} ({which})")
    return lines


def _cell(peer: dict[str, Any], column: Figure) -> str:
    taken = peer["figures"].get(column.key)
    if taken is None:
        return "–"
    told = f"{taken['median']:.0f}" if column is LEFT else figure(taken["median"])
    return f"{told} †" if column.key in peer["notes"] else told


def plot(found: Found, column: Figure) -> str:
    """A bar for each peer."""
    rows = []
    for name, peer in found["peers"].items():
        taken, note = peer["figures"].get(column.key), peer["missing"] or peer["notes"].get(column.key, "")
        if taken is None:
            rows.append(Bar(name, None, note=note or "not measured"))
        else:
            rows.append(
                Bar(name, taken["median"], taken["lower"], taken["upper"], ours=name == OURS, note=note)
            )
    return bars(column.says, column.unit, rows)


def _installed(found: Found) -> str:
    lines = [
        f"* {name}: {', '.join(f'`{package}`' for package in peer['packages'])}"
        + (f" – {peer['missing']}" if peer["missing"] else "")
        for name, peer in found["peers"].items()
        if peer["packages"]
    ]
    return "\n".join(lines)
