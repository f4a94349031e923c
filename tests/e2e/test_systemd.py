"""The units that run the shared agent are units that systemd takes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "ops" / "systemd").iterdir())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--user", *map(str, UNITS)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert checked.returncode == 0, checked.stderr


def test_the_watchdog_and_readiness_are_what_serve_speaks() -> None:
    (service,) = [unit.read_text() for unit in UNITS if unit.suffix == ".service"]
    assert "Type=notify" in service
    assert "WatchdogSec=" in service
