"""The figures that are kept: `results/NAME.json`, with a plot of each beside it."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from ops.benchmarks.svg import Bar, bars

FOLDER = Path(__file__).with_name("results")

Result = dict[str, Any]
"""Of one benchmark: see `ops.benchmarks.__main__`."""


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    return {"python": platform.python_version(), "system": platform.platform()}


def keep(result: Result) -> None:
    """Write a benchmark's result and its plot, in place of the ones before."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n")
    (FOLDER / f"{result['name']}.svg").write_text(plot(result))


def kept(folder: Path = FOLDER) -> dict[str, Result]:
    """The results of `keep` by name."""
    read = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {result["name"]: result for result in read if "variants" in result}


def plot(result: Result) -> str:
    """A bar for each variant, the first one being what is measured and the others what it is held against."""
    rows = [
        Bar(variant, figures["median"], figures["lower"], figures["upper"], ours=number == 0)
        for number, (variant, figures) in enumerate(result["variants"].items())
    ]
    return bars(result["says"], result["unit"], rows, result["target"])
