"""What the shared agent tells systemd: that it is ready, and that its loop runs."""

from __future__ import annotations

import logging
import socket

import anyio

log = logging.getLogger(__name__)


async def notify(told: dict[str, str]) -> None:
    """READY, then a sign of life from this very loop as often as the watchdog wants one.

    `told` has NOTIFY_SOCKET and WATCHDOG_USEC where systemd started this; returns at once where it did not.
    """
    address = told.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        watchdog = int(told.get("WATCHDOG_USEC") or "0") / 1e6
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.setblocking(False)
            notified.connect("\0" + address[1:] if address.startswith("@") else address)
            notified.send(b"READY=1")
            while watchdog > 0:
                await anyio.sleep(watchdog / 3)
                notified.send(b"WATCHDOG=1")
    except (OSError, ValueError) as e:
        log.error("systemd cannot be told any more that this agent runs: %s", e)
