"""`ops/bench readme`: the kept figures as a block of README.md, between two comments."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ops.benchmarks import results
from ops.benchmarks.peers import report
from ops.benchmarks.svg import figure

if TYPE_CHECKING:
    from ops.benchmarks.results import Result

README: Final = Path(__file__).resolve().parents[2] / "README.md"
_BLOCK: Final = re.compile(
    r"(<!-- figures: made by `ops/bench readme` -->\n).*?(<!-- end of figures -->)", re.DOTALL
)


def rewrite(readme: Path = README) -> None:
    """Put the kept figures in place of those before."""
    readme.write_text(rewritten(readme.read_text()))


def rewritten(text: str) -> str:
    """The README with the kept figures. Raises ValueError where it has no place for them."""
    block = f"{_figures()}\n"
    changed, times = _BLOCK.subn(lambda match: f"{match[1]}{block}{match[2]}", text)
    if times != 1:
        raise ValueError(
            "README.md needs one block between `<!-- figures: … -->` and `<!-- end of figures -->`"
        )
    return changed


def _figures() -> str:
    kept = results.kept()
    rows = ["| benchmark | median (quartiles) | target |", "|---|---:|---:|"]
    rows += [_row(kept[name]) for name in sorted(kept)]
    parts = ["\n".join(rows)] if kept else ["None are kept; `ops/bench run all --plot` takes them."]
    peers = results.FOLDER / "peers.json"
    if peers.exists():
        parts.append(
            "Beside other agents, same work, same double ([with plots](ops/benchmarks/results/peers.md)):"
        )
        parts.append(report.table(json.loads(peers.read_text())))
    return "\n\n".join(parts)


def _row(result: Result) -> str:
    variant, taken = next(iter(result["variants"].items()))
    unit = result["unit"]
    spread = f"{figure(taken['median'])} {unit} ({figure(taken['lower'])} … {figure(taken['upper'])})"
    return f"| {result['says']}: {variant} | {spread} | {_target(result)} |"


def _target(result: dict[str, Any]) -> str:
    if result["target"] is None:
        return ""
    missed = "" if result["met"] else ", missed"
    return f"{'≥' if result['more_is_better'] else '≤'} {result['target']:g} {result['unit']}{missed}"
