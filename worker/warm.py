"""All that is imported and built once in the zygote, so that a forked worker finds it ready."""

from __future__ import annotations

import os

from shared import catalog, settings
from shared.paths import config_dir


def warm() -> bool:
    """Import what a worker runs; whether `warm_sdk` was done with it. Leaves no thread and no event loop.

    The SDK takes four fifths of the time and half of the memory, so it waits for the first session whose
    model is asked through it where new sessions use the offline model.
    """
    import anyio._backends._asyncio
    import anyio._core._signals

    import worker.main
    from worker.tools import load_tools, specs

    del anyio, worker
    specs(load_tools())
    if not _default_is_offline():
        warm_sdk()
        return True
    return False


def warm_sdk() -> None:
    """Import the SDK, and do what the first turns through it would else do."""
    from worker.models import anthropic
    from worker.rehearsal import rehearse

    anthropic.ssl_context()  # from the user's environment
    rehearse()


def _default_is_offline() -> bool:
    try:
        chosen = settings.load(config_dir()).model
    except settings.SettingsError:
        return False  # the front ends with it, and tells why
    return catalog.default_model(os.environ, config_dir(), chosen) == catalog.OFFLINE
