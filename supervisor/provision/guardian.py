"""The front's end of the guardian: one process for all workers that the front is itself the parent of."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger(__name__)


class Guardian:
    """Started when there is a first worker to guard. It ends with the front, after those."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    @property
    def pids(self) -> set[int]:
        """Its pid, while it lives."""
        return {self._process.pid} if self._process is not None and self._process.poll() is None else set()

    def guard(self, pids: Iterable[int]) -> None:
        """Have these workers ended when the front is gone; without a guardian they do it themselves."""
        for pid in pids:
            try:
                started = psutil.Process(pid).create_time()
                if not self.pids:
                    self._start()
                os.write(self._lifeline, b"%d %.2f\n" % (pid, started))
            except psutil.NoSuchProcess:
                continue
            except OSError as e:
                log.warning("a worker has no guardian: %s", e, extra={"fields": {"worker": pid}})

    def _start(self) -> None:
        self.close()
        read, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "worker.guardian", str(read)],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                pass_fds=[read],
                start_new_session=True,
            )
        finally:
            os.close(read)

    def close(self) -> None:
        """Let go of it: it ends what it guards, and then itself."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
