"""What all sessions of a front share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from shared.settings import Settings
    from shared.store import Store
    from shared.updates import Dialect
    from supervisor.link import FrontLink
    from supervisor.liveness import Liveness
    from supervisor.provision.base import WorkerProvisioner
    from supervisor.restarts import BootBreaker
    from supervisor.runtime import RuntimeFolder
    from supervisor.tasks import FrontTasks


@dataclass
class Services:
    """What all sessions of a front share."""

    settings: Settings
    store: Store
    link: FrontLink
    provisioner: WorkerProvisioner
    runtime: RuntimeFolder
    liveness: Liveness
    breaker: BootBreaker
    tasks: FrontTasks
    dialect: Dialect
    log_path: Callable[[], Path]
    ending: bool = False
    """The front ends: no worker is started any more."""
