"""All that is imported and built once in the zygote, so that a forked worker finds it ready."""

from __future__ import annotations

import logging
import os

from shared import catalog, settings
from shared.paths import config_dir

log = logging.getLogger(__name__)


def warm() -> bool:
    """Import what a worker runs; whether `warm_sdk` was done with it. Leaves no thread and no event loop.

    The SDK takes two thirds of the time and half of the memory, so it waits for the first session whose
    model is asked through it where new sessions use the offline model.
    """
    import anyio._backends._asyncio
    import anyio._core._signals  # anyio's own packages import it at its first use

    import worker.main
    from worker.tools import load_tools, specs

    del anyio, worker
    specs(load_tools())
    if _default_provider() == catalog.OFFLINE:
        return False
    warm_sdk()
    return True


def warm_sdk() -> None:
    """Import of the SDK what requests need, and do what the first turns through it would else do.

    Leaves no thread and no event loop.
    """
    from shared.credentials import Credentials
    from worker.models.anthropic import anthropic_client
    from worker.models.choose import cloud_client
    from worker.rehearsal import rehearse

    try:
        # By a client, since the SDK's packages import only what is asked for; from the user's environment.
        anthropic_client(Credentials(api_key="none"))
    except (OSError, ValueError) as e:
        log.warning("the model cannot be asked: %s", e)  # the first request tells the user
        return
    if (provider := _default_provider()) in ("bedrock", "vertex"):
        cloud_client(provider)
    rehearse()


def _default_provider() -> str:
    """Of the model of new sessions; "anthropic" where that cannot be known: the front tells why."""
    try:
        chosen = settings.load(config_dir())
        model = catalog.default_model(os.environ, config_dir(), chosen.model)
        return catalog.load(chosen.models, model).entry(model).provider
    except (settings.SettingsError, catalog.CatalogError):
        return "anthropic"
