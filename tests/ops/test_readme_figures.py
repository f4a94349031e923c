"""The figures in README.md are those that are kept, and their plots are drawn from them."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from ops.benchmarks import readme, results
from ops.benchmarks.peers import report
from ops.benchmarks.peers.figures import ALL
from ops.benchmarks.svg import Bar, bars

_PEERS = results.FOLDER / "peers.json"


def test_the_readme_tells_the_kept_figures() -> None:
    text = readme.README.read_text()
    assert readme.rewritten(text) == text, "run `ops/bench readme`"


def test_a_readme_without_a_place_for_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="needs one block"):
        readme.rewritten("# Nothing here\n")


def test_each_kept_plot_is_drawn_from_its_figures() -> None:
    for name, result in results.kept().items():
        assert (results.FOLDER / f"{name}.svg").read_text() == results.plot(result), name


def test_the_peers_document_and_plots_are_drawn_from_their_figures() -> None:
    if not _PEERS.exists():
        pytest.skip("no peers have been measured yet")
    found = json.loads(_PEERS.read_text())
    assert (results.FOLDER / "peers.md").read_text() == report.document(found)
    for column in ALL:
        assert (results.FOLDER / f"peers-{column.key}.svg").read_text() == report.plot(found, column)


@pytest.mark.parametrize("figures", [[0.0], [3.0, 4.0], [0.004, 5_000.0], []])
def test_a_plot_is_a_whole_document_whatever_the_figures(figures: list[float]) -> None:
    rows = [Bar(f"<{number}>", value, value, value * 1.2) for number, value in enumerate(figures)]
    svg = ET.fromstring(bars("a & b", "ms", [*rows, Bar("none", None, note="no login")], target=2.0))
    said = "".join(svg.itertext())
    assert all(f"<{number}>" in said for number in range(len(figures)))
    assert "no login" in said
