"""`iac-code acp` beside a shared agent: stdio to its socket and back, as bytes.

Bytes are passed on as they come, before anything looks at them. What is looked at is which requests are
open, so that when the agent is restarted under an editor each of them gets an answer: the pipe connects
again, greets the new agent with the editor's own `initialize`, and answers what was lost. Nothing is sent
twice. It imports no event loop: it must be there at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from shared.paths import runtime_root

if TYPE_CHECKING:
    from pathlib import Path

CHUNK: Final = 256 * 1024
RECONNECT_WITHIN: Final = 10.0
"""Seconds that an agent which went away has to come back."""
START_WITHIN: Final = 10.0
_ANSWER: Final = re.compile(
    rb'^\{"jsonrpc":"2\.0","id":(-?[0-9.eE+-]+|"(?:[^"\\]|\\.)*"),"(?:result|error)":'
)
_LOST: Final = "The shared agent was restarted before it answered. The session is saved: send it again."
_GREETING: Final = "iac-code-pipe-greeting"


def socket_path() -> Path:
    """Where this user's shared agent listens."""
    return runtime_root() / "shared.sock"


def connect() -> socket.socket | None:
    """A connection to the shared agent, or None where none runs."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.connect(str(socket_path()))
    except (OSError, RuntimeError):
        made.close()
        return None
    return made


def connect_or_start() -> socket.socket | None:
    """As `connect`, after starting the shared agent if there is none (as ssh-agent is)."""
    connected = connect()
    if connected is None:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "supervisor.cli.main", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        connected = _connect_within(START_WITHIN)
    return connected


def _connect_within(seconds: float) -> socket.socket | None:
    # A socket that is not there yet gives no event to wait for.
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (connected := connect()) is not None:
            return connected
        time.sleep(0.02)
    return None


class _Open:
    """Requests of the editor that are not answered yet, by the bytes of their ids."""

    def __init__(self) -> None:
        self.ids: dict[bytes, Any] = {}
        self.initialize: bytes | None = None
        self._up = b""
        self._down = b""

    def sent(self, chunk: bytes) -> None:
        *lines, self._up = (self._up + chunk).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict) and "method" in message and "id" in message:
                self.ids[json.dumps(message["id"], ensure_ascii=False).encode()] = message["id"]
                if message["method"] == "initialize":
                    self.initialize = line

    def came(self, chunk: bytes) -> None:
        *lines, self._down = (self._down + chunk).split(b"\n")
        for line in lines:
            if answer := _ANSWER.match(line):
                self.ids.pop(answer[1], None)

    def cut(self) -> bytes:
        """The agent is gone: what must be written to end a half line, and the answers to what it lost."""
        half, self._down = self._down, b""
        error = {
            "code": -32603,
            "message": "Internal error",
            "data": {"reason": "restarted", "details": _LOST},
        }
        lost = [json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}) for id_ in self.ids.values()]
        self.ids.clear()
        return (b"\n" if half else b"") + "".join(f"{line}\n" for line in lost).encode()


def run(agent: socket.socket) -> int:
    """Pass bytes until either end closes; the exit code."""
    state = _Open()
    while True:
        if _pass(agent, state):
            return 0
        agent.close()
        _write_all(1, state.cut())
        again = _reconnected(state.initialize)
        if again is None:
            sys.stderr.write("iac-code: the shared agent ended and did not come back.\n")
            return 1
        agent = again


def _reconnected(initialize: bytes | None) -> socket.socket | None:
    """A connection to an agent that has been greeted. One that is just ending may accept and hang up."""
    deadline = time.monotonic() + RECONNECT_WITHIN
    while time.monotonic() < deadline:
        agent = _connect_within(deadline - time.monotonic())
        if agent is None:
            return None
        try:
            if initialize is None or _greeted(agent, initialize):
                return agent
        except OSError:
            pass  # the next one, then
        agent.close()
    return None


def _pass(agent: socket.socket, state: _Open) -> bool:
    """True when the editor closed, False when the agent did."""
    with selectors.DefaultSelector() as selector:
        selector.register(agent, selectors.EVENT_READ)
        with contextlib.suppress(PermissionError):  # a regular file is always ready, and cannot be waited for
            selector.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    chunk = os.read(0, CHUNK)
                    if not chunk:
                        return True
                    try:
                        agent.sendall(chunk)
                    except OSError:
                        state.sent(chunk)
                        return False
                    state.sent(chunk)
                else:
                    try:
                        chunk = agent.recv(CHUNK)
                    except OSError:
                        chunk = b""
                    if not chunk:
                        return False
                    if not _write_all(1, chunk):
                        return True
                    state.came(chunk)


def _write_all(fd: int, data: bytes) -> bool:
    """False when nobody reads any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            selector = selectors.DefaultSelector()
            selector.register(fd, selectors.EVENT_WRITE)
            selector.select()
        except OSError:
            return False
    return True


def _greeted(agent: socket.socket, initialize: bytes) -> bool:
    """Send the editor's `initialize` under an id of ours, and keep the answer from the editor."""
    message = {**json.loads(initialize), "id": _GREETING}
    agent.sendall(json.dumps(message).encode() + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        chunk = agent.recv(1)
        if not chunk:
            return False
        answer += chunk
    return True
