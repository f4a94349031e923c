"""`iac-code acp` beside a shared agent: stdio to its socket and back, as bytes.

Bytes are passed on as they come, before anything looks at them, and neither direction waits for the other.
When the agent is restarted under an editor the pipe connects again, and `pipe_state` says what is to be
said. It imports no event loop: it must be there at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from shared.paths import runtime_root
from supervisor.nonblocking import open_nonblocking
from supervisor.peers import same_user
from supervisor.pipe_state import PipeState

if TYPE_CHECKING:
    from pathlib import Path

CHUNK: Final = 256 * 1024
RECONNECT_WITHIN: Final = 20.0
"""Seconds that an agent which went away has to come back, and to answer."""
START_WITHIN: Final = 10.0
QUEUED_WITHIN: Final = 3.0
"""Seconds that an agent has to take a connection."""
LAST_ANSWERS: Final = 2.0
"""Seconds for the agent's last answers after the editor's end; it takes half of one at most itself."""
DIALECT: Final = b'{"jsonrpc":"2.0","method":"_iac-code/dialect","params":{"dialect":"acp"}}\n'
"""Told to the agent before all else where the editor wants the bare standard."""
_GONE: Final = "The shared agent ended, or takes no more clients, and did not come back; see `iac-code logs`."


def socket_path() -> Path:
    """Where this user's shared agent listens."""
    return runtime_root() / "shared.sock"


def connect() -> socket.socket | None:
    """A connection to the shared agent, or None where none runs, or where it takes none for seconds."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)  # with its queue full, one that hangs would hold up the editor for ever
    deadline = time.monotonic() + QUEUED_WITHIN
    while True:
        try:
            made.connect(str(socket_path()))
            if same_user(made):
                return made
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.02)  # nothing tells that there is room in the queue
                continue
        except (OSError, RuntimeError):
            pass
        made.close()
        return None


def connect_or_start() -> socket.socket | None:
    """As `connect`, after starting the shared agent if there is none (as ssh-agent is)."""
    connected = connect()
    if connected is None:
        # By a child that ends at once: clients end an agent with all its descendants, and the daemon is none.
        starter = os.fork()
        if starter == 0:
            try:
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "supervisor.cli.main", "serve"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            finally:
                os._exit(0)
        os.waitpid(starter, 0)
        deadline = time.monotonic() + START_WITHIN
        while connected is None and time.monotonic() < deadline:
            time.sleep(0.02)  # a socket that is not there yet gives no event to wait for
            connected = connect()
    return connected


def run(agent: socket.socket, *, bare: bool) -> int:
    """Pass bytes until either end closes; the exit code."""
    return _Pipe(PipeState(DIALECT if bare else b"")).run(agent)


class _Pipe:
    def __init__(self, state: PipeState) -> None:
        self._state = state
        self._out = open_nonblocking(1)
        self._up = b""
        """What the agent is yet to take."""
        self._down = b""
        """What the editor is yet to take."""
        self._heard = False
        """This agent has said something: it is there, and not just about to end."""

    def run(self, agent: socket.socket) -> int:
        lost_at: float | None = None
        while True:
            if self._pass(agent):
                return 0
            agent.close()
            self._down += self._state.lost()
            if self._heard or lost_at is None:
                lost_at = time.monotonic()
            again = self._connected(lost_at + RECONNECT_WITHIN)
            if again is None:
                self._down += self._state.given_up(_GONE)
                self._flush(LAST_ANSWERS)
                sys.stderr.write(f"iac-code: {_GONE}\n")
                return 1
            agent = again

    def _connected(self, deadline: float) -> socket.socket | None:
        """Another agent; None past the deadline, or when the editor is gone."""
        while time.monotonic() < deadline:
            watched = select.poll()
            watched.register(0, 0)  # for its end alone
            if self._down:
                watched.register(self._out, select.POLLOUT)
            for fd, _ in watched.poll(20 if self._heard else 200):
                if fd == 0:
                    return None
                if fd == self._out and not self._write_down():
                    return None
            if (agent := connect()) is not None:
                return agent
        return None

    def _pass(self, agent: socket.socket) -> bool:
        """True when the editor closed, False when the agent did."""
        agent.setblocking(False)
        self._up = self._state.begin()
        self._heard = False
        ends_at: float | None = None
        while ends_at is None or time.monotonic() < ends_at:
            watched = select.poll()
            if not self._up and ends_at is None:
                watched.register(0, select.POLLIN)
            if self._up or not self._down:  # nothing is read while the editor takes nothing
                taking = 0 if self._down else select.POLLIN
                watched.register(agent, taking | (select.POLLOUT if self._up else 0))
            if self._down:
                watched.register(self._out, select.POLLOUT)
            for fd, _ in watched.poll(None if ends_at is None else 1000 * LAST_ANSWERS):
                if fd == 0:
                    chunk = _read(0)
                    self._state.sent(chunk)
                    self._up = chunk
                    if not chunk:
                        ends_at = time.monotonic() + LAST_ANSWERS
                        _end_writing(agent)
                elif fd == self._out:
                    if not self._write_down():
                        return True
                elif not self._down:
                    came = _receive(agent)
                    if came == b"":
                        return ends_at is not None
                    if came and not self._take(came):
                        return True
            self._write_up(agent)
        return True

    def _take(self, chunk: bytes) -> bool:
        """Hand it to the editor, and look at it; False when the editor is gone."""
        self._heard = True
        if self._state.is_quiet:
            self._down = self._state.came(chunk)
            return self._write_down()
        self._down = chunk
        there = self._write_down()
        self._state.came(chunk)
        return there

    def _write_up(self, agent: socket.socket) -> None:
        try:
            while self._up:
                self._up = self._up[agent.send(self._up) :]
        except BlockingIOError:
            pass
        except OSError:
            self._up = b""  # it is gone; what it had said is still read

    def _write_down(self) -> bool:
        """False when nobody reads any more."""
        try:
            while self._down:
                self._down = self._down[os.write(self._out, self._down) :]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _flush(self, within: float) -> None:
        deadline = time.monotonic() + within
        watched = select.poll()
        watched.register(self._out, select.POLLOUT)
        while self._down and time.monotonic() < deadline:
            if watched.poll(1000 * within) and not self._write_down():
                return


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""


def _receive(agent: socket.socket) -> bytes | None:
    """Empty when the agent is gone, None when there is nothing."""
    try:
        return agent.recv(CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _end_writing(agent: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is gone already
        agent.shutdown(socket.SHUT_WR)
