"""`ops/bench list`, `run NAME… [--json] [--plot]`, `peers [NAME…]`, `readme`."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from dataclasses import asdict

import anyio

import ops.benchmarks
from ops.benchmarks import peers, readme, results
from ops.benchmarks.measure import Benchmark, Spread, load, measure, met


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name, from the modules of this package that define one."""
    found: dict[str, Benchmark] = {}
    for module in pkgutil.iter_modules(ops.benchmarks.__path__):
        if module.name != "__main__" and not module.ispkg:
            benchmark = getattr(importlib.import_module(f"ops.benchmarks.{module.name}"), "BENCHMARK", None)
            if isinstance(benchmark, Benchmark):
                found[module.name] = benchmark
    return dict(sorted(found.items()))


def main() -> int:
    """The command; its exit code is 1 where a target is missed, or a benchmark failed."""
    parser = argparse.ArgumentParser(prog="ops/bench", description="Benchmarks, all on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="names and what they measure")
    run = commands.add_parser("run", help="run some, or all")
    run.add_argument("names", nargs="+", metavar="NAME", help="as listed, or `all`")
    run.add_argument("--json", action="store_true", help="one JSON object with every sample")
    run.add_argument("--plot", action="store_true", help="keep figures and plots in ops/benchmarks/results/")
    peers.add_arguments(commands.add_parser("peers", help="the same work with other agents of PyPI and npm"))
    commands.add_parser("readme", help="write the kept figures into README.md")
    args = parser.parse_args()
    if args.command == "peers":
        return peers.run(args)
    if args.command == "readme":
        readme.rewrite()
        return 0
    known = benchmarks()
    if args.command == "list":
        for name, benchmark in known.items():
            print(f"{name:24} {benchmark.says}{_target(benchmark)}")
        return 0
    names = list(known) if args.names == ["all"] else args.names
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no benchmark {', '.join(unknown)}; `ops/bench list` shows all")
    return _run_all({name: known[name] for name in names}, as_json=args.json, plot=args.plot)


def _run_all(chosen: dict[str, Benchmark], *, as_json: bool, plot: bool) -> int:
    taken: list[results.Result] = []
    for name, benchmark in chosen.items():
        try:
            result = _run(name, benchmark, quiet=as_json)
        except Exception as e:  # noqa: BLE001 - one that fails is told, and the others are still measured
            print(f"{name}: FAILED: {e!r}", file=sys.stderr)
            continue
        taken.append(result)
        if plot:
            results.keep(result)
    if as_json:
        print(json.dumps({"machine": results.machine(), "results": taken}, indent=2))
    return 1 if len(taken) < len(chosen) or any(result["met"] is False for result in taken) else 0


def _run(name: str, benchmark: Benchmark, *, quiet: bool) -> results.Result:
    before = load()
    spreads = anyio.run(measure, benchmark)
    first = next(iter(spreads.values()))
    held = met(benchmark, first)
    if not quiet:
        print(
            f"{name}: {benchmark.says} ({benchmark.runs} runs, load {before['load_1_min']}){_verdict(held)}"
        )
        for variant, figures in spreads.items():
            print(f"  {variant:28} {_told(figures, benchmark.unit)}{_ratio(figures, first)}", flush=True)
    return {
        "name": name,
        "says": benchmark.says,
        "unit": benchmark.unit,
        "target": benchmark.target,
        "more_is_better": benchmark.more_is_better,
        "met": held,
        "load_before": before,
        "load_after": load(),
        "machine": results.machine(),
        "variants": {variant: asdict(figures) for variant, figures in spreads.items()},
    }


def _told(figures: Spread, unit: str) -> str:
    return f"{figures.median:10.2f} {unit}   quartiles {figures.lower:.2f} … {figures.upper:.2f}"


def _ratio(figures: Spread, first: Spread) -> str:
    return "" if figures is first or not first.median else f"   × {figures.median / first.median:.2f}"


def _target(benchmark: Benchmark) -> str:
    if benchmark.target is None:
        return ""
    return f" (target {'≥' if benchmark.more_is_better else '≤'} {benchmark.target:g} {benchmark.unit})"


def _verdict(held: bool | None) -> str:
    return {None: "", True: "  target met", False: "  TARGET MISSED"}[held]


if __name__ == "__main__":
    sys.exit(main())
