"""Python's cycle collector, where it would look for garbage that cannot be there."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No collection meanwhile. For work that makes many objects, all of which are kept.

    Reading 50,000 records makes 200,000 objects: 160 ms, with the collector walking them 450.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
