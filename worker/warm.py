"""All that is imported and built once in the zygote, so that a forked worker finds it ready."""

from __future__ import annotations


def warm() -> None:
    """Import what a worker runs. Starts no thread, opens no socket, makes no event loop."""
    import anyio._backends._asyncio

    import worker.main
    from worker.models import anthropic
    from worker.tools import load_tools, specs

    del anyio, worker
    specs(load_tools())
    anthropic.warm()
