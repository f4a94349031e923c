"""A server's process: started, written to, read as lines, ended with all that it started.

Started before the SDK is imported, so that both take their time together. What it writes beside messages
is thrown away, of its stderr only the end is kept.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import anyio

from worker.mcp.bounds import MessageLines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shared.mcp_servers import StdioServer
    from worker.tools.processes import Processes

_GRACE: Final = 0.5
"""Seconds from the end of its stdin and SIGTERM to SIGKILL."""
_KEPT_OF_STDERR: Final = 4096


class ServerProcess:
    """One run of a server. `lines` brings lines as they come; it ends when its stdout does, or it itself."""

    def __init__(self) -> None:
        self.cutter = MessageLines()
        # No buffer: what nobody takes stays in the pipe, and then in the server.
        self._give, self.lines = anyio.create_memory_object_stream[list[bytes]](0)
        self._errors = b""
        self._stdin: int | None = None

    def start(
        self, server: StdioServer, processes: Processes, cwd: Path, environment: Mapping[str, str]
    ) -> None:
        """Raises OSError, and ValueError for what cannot be in a command line."""
        read, write = os.pipe()
        try:
            self._child = processes.start(
                [server.command, *server.args],
                cwd=cwd,
                environment={**environment, **server.env},
                receive=self._take,
                receive_errors=self._take_errors,
                stdin=read,
                background=True,
            )
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        os.set_blocking(write, False)
        self._stdin = write

    @property
    def pid(self) -> int:
        """Also the id of its process group."""
        return self._child.pid

    async def _take(self, data: bytes) -> None:
        if lines := self.cutter.feed(data):
            await self._give.send(lines)

    async def _take_errors(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-_KEPT_OF_STDERR:]

    async def write(self, data: bytes) -> None:
        """All of `data`. Raises OSError when it does not read any more, or was stopped."""
        view = memoryview(data)
        while view:
            if self._stdin is None:
                raise BrokenPipeError("the server was stopped")
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._stdin)

    async def until_ended(self) -> None:
        """Return when nothing can come from it any more; then `lines` has ended."""
        async with anyio.create_task_group() as waiting:
            for event in (self._child.output_ended, self._child.exited, self._child.gone):
                waiting.start_soon(_cancel_when, event, waiting.cancel_scope)
        # What it wrote last may still be in the pipe; and one that ends closes its stdout a little before.
        with anyio.move_on_after(0.25):
            await self._child.output_ended.wait()
            await self._child.exited.wait()
        self._give.close()

    def ended(self) -> bool:
        """It is not there any more, or will not be heard any more."""
        child = self._child
        return child.failure is not None or child.output_ended.is_set() or child.exited.is_set()

    def why(self) -> str:
        """How it ended, as a phrase, with the last line of its stderr."""
        child = self._child
        if child.failure is not None:
            how = str(child.failure)
        elif child.memory is not None:
            how = f"took {child.memory >> 20} MiB of memory"
        elif (code := self._exit_code()) is None:
            how = "closed its stdout"
        else:
            how = f"ended with signal {-code}" if code < 0 else f"ended with code {code}"
        return how + self.last_words()

    def _exit_code(self) -> int | None:
        """As in `subprocess`; None while it runs. Leaves the zombie, which its supervisor still needs."""
        if self._child.ended is not None:
            return self._child.ended.returncode
        try:
            ended = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return None
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def last_words(self) -> str:
        """The last line of its stderr, or what else it wrote, as an addition to a sentence; or nothing."""
        lines = self._errors.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if not last and self.cutter.first_noise:
            last = self.cutter.first_noise.decode(errors="replace").strip()
        return f": {last[:300]}" if last else ""

    def stop(self) -> None:
        """End it and all that it started. Returns at once; the ending goes on whatever is cancelled."""
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None
            self._child.deaf = True
            self._child.stop(_GRACE)
        self._give.close()
        self.lines.close()


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
