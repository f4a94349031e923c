"""A strict double of the Anthropic Messages API, for tests and benchmarks.

Real HTTP on loopback, real SSE. It refuses with 400 what the service refuses, so a request that passes
here is valid there as far as these rules go (`rules`), and the prompt directs what it answers
(`directives`). In process: `async with serving() as double`; alone: `python -m tests.double PORT LOG`.
"""

from __future__ import annotations

from tests.double.server import Double, Received, serving

__all__ = ["Double", "Received", "serving"]
