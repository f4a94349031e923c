"""`iac-code doctor`: what this installation finds on this machine, and what protection is active."""

from __future__ import annotations

from typing import Final

from rich.table import Table
from rich.text import Text

from supervisor.cli.checks import findings
from supervisor.cli.terminal import console, harmless

_STYLES: Final = {"ok": "green", "note": "yellow", "broken": "bold red"}


def run() -> int:
    """Print the findings; 1 if something is broken."""
    screen = console()
    with screen.status("Looking …"):
        found = list(findings())
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    before = ""
    for finding in found:
        state = Text(finding.state, style=_STYLES[finding.state])
        table.add_row(state, "" if finding.topic == before else finding.topic, Text(harmless(finding.text)))
        before = finding.topic
    screen.print(table)
    return 1 if any(finding.state == "broken" for finding in found) else 0
