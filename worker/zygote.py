"""The zygote: imports all that workers need, then forks one per request, and guards them.

It runs in a session of its own, has one thread, no event loop and no ZeroMQ context, so that a fork is
safe. It is the workers' parent and a subreaper. When its socket to the front closes, for whatever
reason, it kills its whole tree and ends: parent-death signals alone leave `setsid` children behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json, to_json
from setproctitle import setproctitle

from shared.frames import WorkerSpec
from shared.processes import become_subreaper, descendants, die_with_parent, kill_below, signal_all
from worker import warm
from worker.scratch import Scratch

MAX_MESSAGE: Final = 64 * 1024
_TIDYING: Final = 0.1
"""Seconds."""
_IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)


class Zygote:
    """A dumb loop: read one request, fork or sweep; report exits."""

    def __init__(self, link: socket.socket, *, sdk: bool) -> None:
        self._link = link
        self._sdk = sdk
        """The SDK is imported."""
        self._workers: set[int] = set()
        self._session_dirs: set[str] = set()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def serve(self) -> None:
        """Until the front is gone; then end everything below."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write)
        self._send({"op": "warm", "pid": os.getpid(), "sdk": self._sdk})
        while True:
            readable, _, _ = select.select([self._link.fileno(), self._wake_read], [], [])
            if self._wake_read in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 512)
            self._reap()
            if self._link.fileno() in readable and not self._take():
                break
        kill_below(os.getpid())
        self._tidy()

    def _tidy(self) -> None:
        """Remove what killed workers could not; what takes longer is left to later workers."""
        end = time.monotonic() + _TIDYING
        # A killed process holds its files until its last thread is gone, which shows when it can be reaped.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0) or time.monotonic() < end:
                select.select([], [], [], 0.001)
        for session_dir in self._session_dirs:
            Scratch(Path(session_dir)).remove(end)

    def _take(self) -> bool:
        """Handle one request; False when the front is gone."""
        try:
            data, fds, _flags, _address = socket.recv_fds(self._link, MAX_MESSAGE, 2, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        if not data:
            return False
        message = from_json(data)
        if message["op"] == "fork":
            self._fork(WorkerSpec.model_validate_json(message["spec"]), fds)
        else:
            self._send({"op": "swept", "left": self._sweep(signal.Signals(message["signal"]))})
        return True

    def _fork(self, spec: WorkerSpec, fds: list[int]) -> None:
        if spec.sdk and not self._sdk:
            warm.warm_sdk()
            _freeze()
            self._sdk = True
        # A thread that held a lock at the fork would leave it held in the child for ever.
        assert threading.active_count() == 1, threading.enumerate()
        try:
            pid = os.fork()
        except OSError as e:
            self._send({"op": "refused", "reason": f"A process could not be forked: {e.strerror}."})
            pid = -1
        if pid == 0:
            self._become_worker(spec, fds)
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self._workers.add(pid)
            self._session_dirs.add(spec.session_dir)
            pidfd = os.pidfd_open(pid)  # the child is not reaped yet, so this is it
            self._send({"op": "forked", "pid": pid}, [pidfd])
            os.close(pidfd)

    def _become_worker(self, spec: WorkerSpec, fds: list[int]) -> None:
        """In the child. Never returns into the zygote's loop."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, *_IGNORED):
                signal.signal(number, signal.SIG_DFL)
            # As any Python has it: an MCP server that is gone is a BrokenPipeError, not the worker's end.
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            self._link.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            os.setsid()
            from worker.main import run

            lock_fd = fds[1] if len(fds) > 1 else -1
            code = run(spec.model_copy(update={"lifeline_fd": fds[0], "lock_fd": lock_fd}))
        except BaseException:  # noqa: BLE001  a child must never go on in the zygote's loop; told on stderr, the log
            traceback.print_exc()
        finally:
            os._exit(code)

    def _sweep(self, number: signal.Signals) -> int:
        left = descendants(os.getpid(), spare=self._workers)
        signal_all(left, number)
        self._reap()
        return len(left)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._workers:
                self._workers.discard(pid)
                self._send({"op": "exited", "pid": pid, "status": status})

    def _send(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        # A front that is gone shows as end of file at the next read.
        with contextlib.suppress(OSError):
            socket.send_fds(self._link, [to_json(message)], fds or [])


def main() -> None:
    """`python -m worker.zygote FD`: FD is the SEQPACKET socket to the front."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    setproctitle("iac-code: zygote")
    link = socket.socket(fileno=int(sys.argv[1]))
    # The imports take seconds, in which nobody reads the lifeline; there is nothing below to be ended yet.
    die_with_parent()
    if _is_closed(link):
        return
    sdk = warm.warm()
    _freeze()
    die_with_parent(0)
    Zygote(link, sdk=sdk).serve()


def _freeze() -> None:
    """Keep the collector from touching, and so copying, what children share."""
    gc.collect()
    gc.freeze()


def _is_closed(link: socket.socket) -> bool:
    """The front ended before this process could ask to be told."""
    try:
        return not link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


if __name__ == "__main__":
    main()
