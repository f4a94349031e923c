"""`ops/chaos [--sessions 20] [--seconds 60] [--seed N] [--clients 0]`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import anyio

from ops.chaos_run.run import Run
from ops.chaos_run.verdict import Verdict, judge

_EVIDENCE = 20
"""Lines of evidence that are printed."""


def main() -> int:
    """The command; its exit code is 1 where anything that must be 0 is not."""
    parser = argparse.ArgumentParser(prog="ops/chaos", description=__doc__)
    parser.add_argument("--sessions", type=int, default=20, help="default 20")
    parser.add_argument("--seconds", type=float, default=60, help="how long strikes fall; default 60")
    parser.add_argument("--seed", type=int, default=1, help="of the strikes and the prompts; default 1")
    parser.add_argument(
        "--clients", type=int, default=0, help="beside the editor, of one shared agent; they come and vanish"
    )
    args = parser.parse_args()
    # A short path: below it lies a socket, whose path may have 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="iac-chaos-"))
    run = Run(home, args.seed, args.sessions, args.seconds, args.clients)
    anyio.run(run.play)
    verdict = judge(run.seen())
    print(f"{args.sessions} sessions, {args.seconds:g} s, seed {args.seed}")
    _tell(verdict)
    if verdict.faults.total():
        print(f"FAILED. What the run left on disk is in {home}")
        return 1
    shutil.rmtree(home)
    return 0


def _tell(verdict: Verdict) -> None:
    for label, value in verdict.facts.items():
        print(f"  {label:44} {value}")
    for label, number in verdict.faults.items():
        print(f"  {label:44} {number}")
    for line in verdict.evidence[:_EVIDENCE]:
        print(f"    {line[:400]}")
    if len(verdict.evidence) > _EVIDENCE:
        print(f"    … and {len(verdict.evidence) - _EVIDENCE} more")


if __name__ == "__main__":
    sys.exit(main())
