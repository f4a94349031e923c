"""The front's heartbeat: pings workers, finds those that hang, has them replaced."""

from __future__ import annotations

import itertools
import logging
import time
from typing import TYPE_CHECKING

import anyio

from supervisor import effects as fx
from supervisor.liveness import Verdict

if TYPE_CHECKING:
    from supervisor.live import LiveSession
    from supervisor.registry import Registry

log = logging.getLogger(__name__)


async def watch_workers(registry: Registry) -> None:
    """Runs as long as the front."""
    liveness = registry.services.liveness
    numbers = itertools.count(1)
    while True:
        now = anyio.current_time()
        for session_id, verdict in liveness.check(now):
            live = registry.live.get(session_id)
            if live is not None:
                _act(live, verdict)
        for session_id in liveness.pings_due(now):
            live = registry.live.get(session_id)
            if live is not None and live.epoch is not None:
                live.epoch.ping(next(numbers))
        asleep_before = _asleep()
        await anyio.sleep(max(0.0, liveness.next_at(now) - now))
        slept = _asleep() - asleep_before
        if slept > 1.0:
            liveness.forgive(slept)


def _asleep() -> float:
    """Seconds that the machine was suspended since boot: what only CLOCK_BOOTTIME counts."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(boottime) - time.monotonic() if boottime is not None else 0.0


def _act(live: LiveSession, verdict: Verdict) -> None:
    epoch = live.epoch
    if epoch is None or epoch.pid is None:
        return
    fields = {"session": live.meta.session_id, "worker": epoch.pid}
    if _traced(epoch.pid):
        # Somebody looks at it with a debugger: it is not hung, it is held, and a signal would disturb them.
        live.unresponsive = False
        live.services.liveness.restart(live.meta.session_id, anyio.current_time())
        log.info("worker is being debugged and let be", extra={"fields": fields})
    elif verdict is Verdict.UNRESPONSIVE:
        live.unresponsive = True
        log.warning("worker does not answer", extra={"fields": fields})
        epoch.dump_stacks()
        if live.machine.turn is not None:
            within = live.services.settings.kill_after_in_turn
            live.tell(
                "The session's process does not answer. If that lasts "
                f"{within:g} s in all, it is restarted and the turn goes on."
            )
    else:
        log.error("worker hangs and is killed", extra={"fields": fields})
        live.do([fx.Kill("did not answer")])


def _traced(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("TracerPid:"):
                    return line.split()[1] != "0"
    except OSError:
        return False
    return False
