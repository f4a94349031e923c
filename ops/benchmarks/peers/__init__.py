"""`ops/bench peers`: the same work, with the same double, for other agents that PyPI and npm offer.

Everything is pinned (`agents`), installed below `.peers/` (`install`) and runs in a throw-away HOME without
a login (`running`). The table and plots are `report`'s.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import anyio

from ops.benchmarks import results
from ops.benchmarks.measure import load, spread
from ops.benchmarks.peers import report
from ops.benchmarks.peers.agents import OURS, PEERS, Peer
from ops.benchmarks.peers.install import install
from ops.benchmarks.peers.measuring import Taken, measure

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    names = ", ".join(peer.name for peer in PEERS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {names}")
    parser.add_argument("--runs", type=int, default=5, help="starts of each for what is timed (default 5)")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object with every sample; keeps nothing"
    )


def run(args: argparse.Namespace) -> int:
    """The command: install, measure, and keep `peers.json`, its table and plots. Ours is always measured."""
    chosen = [peer for peer in PEERS if not args.names or peer.name in {OURS, *args.names}]
    if unknown := set(args.names) - {peer.name for peer in PEERS}:
        print(f"ops/bench peers: no peer {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    missing = {peer.name: why for peer in chosen if (why := install(peer)) is not None}
    before = load()
    taken = anyio.run(measure, [peer for peer in chosen if peer.name not in missing], args.runs)
    found = {
        "command": f"ops/bench peers --runs {args.runs}",
        "machine": results.machine(),
        "load_before": before,
        "load_after": load(),
        "peers": {peer.name: _told(peer, taken.get(peer.name), missing.get(peer.name)) for peer in chosen},
    }
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        report.keep(found)
        print(report.table(found))
    return 0


def _told(peer: Peer, taken: Taken | None, missing: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"packages": list(peer.packages), "missing": missing, "figures": {}, "notes": {}}
    if taken is not None:
        told["figures"] = {
            key: {
                "median": (s := spread(samples)).median,
                "lower": s.lower,
                "upper": s.upper,
                "samples": samples,
            }
            for key, samples in taken.samples.items()
        }
        told["notes"] = taken.notes
    return told
