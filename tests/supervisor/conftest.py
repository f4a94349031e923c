"""Fixtures of the front's tests."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from tests.supervisor.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def shell() -> Shell:
    """A session with everything around it."""
    return Shell()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A reading and a writing end; a test may close either."""
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        with contextlib.suppress(OSError):
            os.close(fd)
