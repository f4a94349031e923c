"""`iac-code models`: what can be chosen, and what a new session takes."""

from __future__ import annotations

import os

from rich import box
from rich.table import Table

from shared import catalog, paths, settings
from supervisor.cli.failure import CommandError
from supervisor.cli.terminal import console


def run() -> int:
    """Print the catalog, the default marked. Raises CommandError, SettingsError."""
    config_dir = paths.config_dir()
    configured = settings.load(config_dir)
    default = catalog.default_model(os.environ, config_dir, configured.model)
    try:
        entries = catalog.load(configured.models, default).entries
    except catalog.CatalogError as e:
        raise CommandError(f"{config_dir / 'settings.json'}: {e}") from e
    screen = console()
    table = Table(box=box.SIMPLE_HEAD if screen.is_terminal else None, pad_edge=False)
    for name in ("", "id", "name", "window", "in $/M", "out $/M"):
        table.add_column(name, justify="right" if name[:1] in "wio" and name not in {"id", ""} else "left")
    for entry in entries:
        price = (f"{entry.price.input:g}", f"{entry.price.output:g}") if entry.price else ("–", "–")
        table.add_row("*" if entry.id == default else "", entry.id, entry.name, f"{entry.window:,}", *price)
    screen.print(table)
    screen.print(
        "* a new session's model. Choose: --model, IAC_CODE_MODEL, or `model` in settings.json.", style="dim"
    )
    return 0
