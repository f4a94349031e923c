"""What tests of several tools share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker.filing import Session

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session that works in a folder of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Session(folder)
