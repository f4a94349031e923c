"""A worker process: sets itself apart, connects to the front, serves one session, ends with the front."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
from pathlib import Path
from typing import Final

import anyio
import zmq
from anyio import to_thread
from setproctitle import setproctitle

from shared import logs
from shared.channel import connect_dealer
from shared.faults import fault_point
from shared.frames import (
    DATA_TO_WORKER,
    TO_WORKER,
    Ack,
    Cancel,
    Configure,
    Credit,
    Header,
    Hello,
    Open,
    Ping,
    Prompt,
    Ready,
    Replay,
    Servers,
    Shutdown,
    Swept,
    WorkerSpec,
)
from shared.processes import become_subreaper, kill_below
from worker.publisher import Publisher
from worker.requests import ClientRequests
from worker.scratch import remove_abandoned
from worker.session import WorkerSession
from worker.tools.processes import Processes

log = logging.getLogger(__name__)

_TIDY_AFTER: Final = 10.0
"""Seconds until others' leftovers are looked for: not while the first prompt needs the processor."""


def run(spec: WorkerSpec) -> int:
    """Serve until told to end or the front is gone; the process's exit code.

    The caller has made this process the leader of its own session.
    """
    fault_point("worker.start")
    become_subreaper()
    setproctitle(f"iac-code: worker {spec.session_id}")
    log_fd = os.open(spec.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    logs.start(log_fd, "worker", spec.session_id)
    stacks_path = Path(spec.session_dir) / f"stacks-{spec.epoch}.txt"
    stacks = os.open(stacks_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # A Python signal handler would wait for the GIL; this one does not.
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    anyio.run(_Worker(spec).serve)
    # What was not gone in its time: with front and zygote dead nobody else would end it.
    kill_below(os.getpid())
    logging.shutdown()
    stacks_path.unlink(missing_ok=True)  # only a death leaves it, for the crash report
    return 0


class _Worker:
    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec

    async def serve(self) -> None:
        spec = self._spec
        identity = bytes.fromhex(spec.identity)
        context = zmq.Context[zmq.Socket[bytes]](io_threads=1)
        self._control = connect_dealer(context, spec.control, identity)
        self._data = connect_dealer(context, spec.data, identity)
        self._publisher = Publisher(self._data, spec.session_id, spec.dialect)
        self._client = ClientRequests(self._publisher)
        self._data.send([Header("hello", str(os.getpid())).encode(), b""])
        self._control.send([Hello(pid=os.getpid()).encode()])
        async with Processes() as self._processes, anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._end_with_front)
            self._tasks.start_soon(self._receive_control)
            self._tasks.start_soon(self._publisher.flush_frames)
            self._tasks.start_soon(self._end_on_sigterm)
            # The loop runs and answers pings from here on; history is read after.
            self._control.send([Ready().encode()])
            fault_point("worker.ready")
            self._session = WorkerSession(spec, self._publisher, self._client, self._processes)
            self._tasks.start_soon(self._receive_data)
            await anyio.sleep(_TIDY_AFTER)
            await to_thread.run_sync(remove_abandoned, abandon_on_cancel=True)
        await self._session.close()
        self._publisher.flush()
        for channel in (self._control, self._data):
            channel.close_after(0.2)
        context.term()

    async def _receive_control(self) -> None:
        while True:
            for parts in await self._control.receive():
                match TO_WORKER.validate_json(parts[0]):
                    case Ping(n=n):
                        self._control.send([Ack(n=n, background=self._processes.background_count).encode()])
                    case Credit(octets=octets, replay=replay):
                        self._publisher.add_credit(octets, replay)
                    case Cancel(turn_id=turn_id):
                        self._session.cancel(turn_id)
                    case Configure(options=options):
                        self._session.options.update(options)
                    case Swept():
                        self._session.swept()
                    case Shutdown():
                        self._tasks.cancel_scope.cancel()

    async def _receive_data(self) -> None:
        while True:
            for parts in await self._data.receive():
                match DATA_TO_WORKER.validate_json(parts[0]):
                    case Open() as frame:
                        self._tasks.start_soon(self._session.open, frame)
                    case Servers() as frame:
                        self._tasks.start_soon(self._session.use_servers, frame)
                    case Prompt() as frame:
                        self._tasks.start_soon(self._session.prompt, frame)
                    case Replay() as frame:
                        self._tasks.start_soon(self._session.replay, frame)
                    case reply:
                        self._client.deliver(reply)

    async def _end_with_front(self) -> None:
        """The lifeline: nobody writes to it, so it is readable when the front is gone."""
        await anyio.wait_readable(self._spec.lifeline_fd)
        log.info("the front is gone")
        self._tasks.cancel_scope.cancel()

    async def _end_on_sigterm(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM) as received:
            async for _ in received:
                self._tasks.cancel_scope.cancel()
