"""Fixtures of the whole suite."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The product runs on anyio's asyncio backend; so do its tests."""
    return "asyncio"
