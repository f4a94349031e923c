"""A raw ACP client: one agent process, every line of it kept as it came and held to the wire's rules.

For tests and the demo that look at lines, not at models of them: the SDK's models ignore unknown keys,
duplicate answers and stray bytes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import psutil

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from anyio.abc import Process

    from tests.e2e.wire import Wire

PATIENCE = 30.0
"""Seconds. Generous: only a failure waits this long."""

_SCRIPT = Path(sys.executable).with_name("iac-code")
AGENT = [str(_SCRIPT), "acp"] if _SCRIPT.exists() else [sys.executable, "-m", "supervisor.cli.main", "acp"]
"""The installed command; the module where only the dependencies are installed."""


def offline_environment(home: Path) -> dict[str, str]:
    """This environment without credentials or settings of the user; everything is stored below `home`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "IAC_CODE_", "XDG_", "AWS_", "GOOGLE_"))
    }
    # A runtime folder of the tests' own: a shared agent of this user must not be attached to.
    runtime = tempfile.gettempdir() + f"/iac-tests-{os.getpid()}"
    Path(runtime).mkdir(mode=0o700, exist_ok=True)
    return kept | {
        "HOME": str(home),
        "IAC_CODE_CONFIG_DIR": str(home / "config"),
        "XDG_RUNTIME_DIR": runtime,
    }


class RawClient:
    """What came from the agent, and ways to send and to wait. Made by `start_agent`."""

    def __init__(self, process: Process, answer_permission: str | None, wire: Wire | None) -> None:
        self.process = process
        self.wire = wire
        """Holds what comes to the schema and to the protocol's rules, where that is wanted."""
        self.lines: list[bytes] = []
        """Every line of stdout, without its end."""
        self.messages: list[dict[str, Any]] = []
        self.faults: list[str] = []
        """What in stdout breaks the wire's rules."""
        self.stderr = b""
        self.watch: Callable[[dict[str, Any]], None] | None = None
        """Called with each message as it comes."""
        self.answer_request: Callable[[str, dict[str, Any]], dict[str, Any] | None] | None = None
        """Gives the members of the answer to each other request by its method and params; None: no answer."""
        self.answer_permission = answer_permission
        """The kind of option that permission requests are answered with as they come; None: not at all."""
        self._reading = anyio.Event()
        self._reading.set()
        self._changed = anyio.Condition()
        self._ended = False
        self.made = 0
        """The id of the newest request."""

    # Sending

    async def send_raw(self, octets: bytes) -> None:
        """Write to the agent's stdin, whatever it is."""
        if self.wire is not None:
            self.wire.unknown = True
        await self._write(octets)

    async def _write(self, octets: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(octets)

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message as a line."""
        if self.wire is not None:
            self.wire.sent(message)
        await self._write(json.dumps(message).encode() + b"\n")

    async def begin(self, method: str, params: dict[str, Any]) -> int:
        """Send a request without waiting; its id."""
        self.made += 1
        id_ = self.made  # others may ask while this is sent
        await self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        return id_

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def respond(self, request: dict[str, Any], result: Any) -> None:
        """Answer a request of the agent."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer, error answers too."""
        return await self.answer_to(await self.begin(method, params))

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """The `result` of a request; an error answer fails."""
        answer = await self.request(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def initialize(self, **capabilities: Any) -> Any:
        """The first request."""
        return await self.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})

    async def new_session(self, cwd: Path) -> str:
        """A new session's id."""
        return str((await self.call("session/new", {"cwd": str(cwd), "mcpServers": []}))["sessionId"])

    async def begin_prompt(self, session_id: str, text: str) -> int:
        """Send a prompt without waiting; the request's id."""
        prompt = [{"type": "text", "text": text}]
        return await self.begin("session/prompt", {"sessionId": session_id, "prompt": prompt})

    async def prompt(self, session_id: str, text: str) -> dict[str, Any]:
        """Send a prompt and wait for its answer, error answers too."""
        return await self.answer_to(await self.begin_prompt(session_id, text))

    # Looking and waiting

    async def answer_to(self, id_: Any) -> dict[str, Any]:
        """The answer to a request of ours, when it is there. Raises TimeoutError."""
        return await self.wait_for(lambda message: "method" not in message and message.get("id") == id_)

    async def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message, past ones included, that is `wanted`. Raises TimeoutError."""
        seen = 0
        found: list[dict[str, Any]] = []

        def look() -> bool:
            nonlocal seen
            fresh, seen = self.messages[seen:], len(self.messages)
            found.extend(message for message in fresh if wanted(message))
            return bool(found)

        await self.wait_until(look)
        return found[0]

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition`, looked at after each message, holds. Raises TimeoutError."""
        with anyio.fail_after(PATIENCE):
            async with self._changed:
                while not condition():
                    assert not self._ended, f"the agent ended before that; stderr: {self.stderr!r}"
                    await self._changed.wait()

    async def wait_text(self, session_id: str, wanted: str) -> None:
        """Wait until the assistant's text of a session contains `wanted`. Raises TimeoutError."""
        await self.wait_until(lambda: wanted in self.text(session_id))

    def answers(self, id_: Any) -> list[dict[str, Any]]:
        """All answers with this id; there must never be two."""
        return [m for m in self.messages if "method" not in m and m.get("id") == id_]

    def updates(self, session_id: str, *kinds: str) -> list[dict[str, Any]]:
        """The updates of a session, of these kinds if any are named."""
        return [
            m["params"]["update"]
            for m in self.messages
            if m.get("method") == "session/update"
            and m["params"]["sessionId"] == session_id
            and (not kinds or m["params"]["update"]["sessionUpdate"] in kinds)
        ]

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        """The text of a session so far."""
        return "".join(update["content"]["text"] for update in self.updates(session_id, kind))

    def worker(self, session_id: str) -> psutil.Process | None:
        """The session's worker process below the agent, found by its title."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if " ".join(process.cmdline()).strip() == f"iac-code: worker {session_id}":
                    return process
        return None

    # Reading

    def pause(self) -> None:
        """Read nothing, as a client that hangs."""
        self._reading = anyio.Event()

    def go_on(self) -> None:
        """Read again."""
        self._reading.set()

    async def read_stdout(self) -> None:
        """Take lines until the agent closes its stdout."""
        assert self.process.stdout is not None
        rest = b""
        with suppress(anyio.BrokenResourceError):
            async for chunk in self.process.stdout:
                await self._reading.wait()
                *ended, rest = (rest + chunk).split(b"\n")
                for line in ended:
                    await self._take(line)
        if rest:
            self.faults.append(f"a last line without its end: {rest[:200]!r}")
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def read_stderr(self) -> None:
        """Keep what the agent says on stderr."""
        assert self.process.stderr is not None
        with suppress(anyio.BrokenResourceError):
            async for chunk in self.process.stderr:
                self.stderr += chunk

    async def _take(self, line: bytes) -> None:
        self.lines.append(line)
        if self.wire is not None:
            self.wire.received(line)
        message = _checked(line)
        if message is None:
            self.faults.append(f"not a JSON-RPC object in UTF-8: {line[:200]!r}")
            return
        if self.watch is not None:
            self.watch(message)
        async with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        if message.get("method") == "session/request_permission" and self.answer_permission is not None:
            await self.respond(message, permission(message, self.answer_permission))
        elif self.answer_request is not None and message.keys() >= {"id", "method"}:
            given = self.answer_request(message["method"], message["params"])
            if given is not None:
                await self.send({"jsonrpc": "2.0", "id": message["id"], **given})


def permission(request: dict[str, Any], kind: str) -> dict[str, Any]:
    """The standard answer that selects the option of this kind."""
    (option,) = [option for option in request["params"]["options"] if option["kind"] == kind]
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


def _checked(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line.decode("utf-8", "strict"))
    except ValueError:
        return None
    return message if isinstance(message, dict) and message.get("jsonrpc") == "2.0" else None


@asynccontextmanager
async def start_agent(
    home: Path,
    *,
    command: Sequence[str] = AGENT,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    answer_permission: str | None = "allow_once",
    wire: Wire | None = None,
) -> AsyncIterator[RawClient]:
    """Start an agent that stores everything below `home`. At exit it has ended, and all below it.

    `answer_permission` is the kind of option that every permission request is answered with; None: the
    test answers. Fails at exit if stdout broke the wire's rules; `wire` adds the protocol's.
    """
    try:
        async with (
            await anyio.open_process(
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=offline_environment(home) | dict(env or {}),
                cwd=cwd,
                start_new_session=True,
            ) as process,
            anyio.create_task_group() as tasks,
        ):
            client = RawClient(process, answer_permission, wire)
            tasks.start_soon(client.read_stdout)
            tasks.start_soon(client.read_stderr)
            try:
                yield client
            finally:
                with anyio.CancelScope(shield=True):
                    await end_agent(process)
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The task group wraps what the test raised; a failed test should show its own assertion.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
    faults = client.faults + (wire.finished() if wire is not None else [])
    assert not faults, faults


async def end_agent(process: Process) -> None:
    """Close the agent's stdin and wait for its end; what is then left of its tree is killed."""
    below = _tree(process.pid)
    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(5):
        await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    await wait_gone(below)
    for left in below:
        with suppress(psutil.NoSuchProcess):
            left.kill()


async def wait_gone(processes: list[psutil.Process], within: float = 2.0) -> list[psutil.Process]:
    """Wait until all have ended, at most `within` seconds; those that have not.

    Of a child of this process it takes the exit status away: nothing else learns it then.
    """
    _, alive = await anyio.to_thread.run_sync(lambda: psutil.wait_procs(processes, timeout=within))
    return alive


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []
