"""A shared agent (`iac-code serve`) for tests, with a runtime folder and a model's double of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import psutil

from tests.double import serving
from tests.e2e.client import AGENT, offline_environment, start_agent
from tests.e2e.rig import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import Process

    from tests.double import Double
    from tests.e2e.client import RawClient

COMMAND = AGENT[:-1]


@dataclass
class Shared:
    """A running shared agent. `process` may be replaced by a test that ends it."""

    home: Path
    work: Path
    environment: dict[str, str]
    double: Double
    process: Process
    runtime: Path
    logged_before: int = 0
    """Lines of the log that are not of this test."""

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.runtime / "iac-code" / "shared.sock"

    def client(self, **options: Any) -> AbstractAsyncContextManager[RawClient]:
        """`iac-code acp` as an editor starts it."""
        return start_agent(self.home, env=self.environment, cwd=self.work, **options)

    async def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Another `iac-code` command of the same user."""
        return await anyio.run_process([*COMMAND, *words], env=self.whole, check=False)

    @property
    def whole(self) -> dict[str, str]:
        """The environment of its processes."""
        return offline_environment(self.home) | self.environment

    async def serve(self) -> Process:
        """Start `iac-code serve`; it listens when this returns."""
        process = await anyio.open_process(
            [*COMMAND, "serve"], env=self.whole, stderr=subprocess.PIPE, start_new_session=True
        )
        await until(self.socket.exists)
        return process

    def log(self) -> list[dict[str, Any]]:
        """The log of front, zygote and workers, since the test began."""
        return [json.loads(line) for line in self.log_lines()[self.logged_before :] if line.startswith("{")]

    def log_lines(self) -> list[str]:
        """The log since the agent was started."""
        return (self.home / "config" / "logs" / "iac-code.jsonl").read_text().splitlines()

    def logged(self, text: str) -> bool:
        """Whether some entry's message has the text."""
        return any(text in entry["message"] for entry in self.log())

    def workers(self) -> list[psutil.Process]:
        """Its workers that live."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if " ".join(process.cmdline()).startswith("iac-code: worker"):
                    found.append(process)
        return found

    def history(self, session: str) -> str:
        """As it is on disk."""
        return (self.home / "config" / "sessions" / session / "history.jsonl").read_text()


@asynccontextmanager
async def shared(tmp_path: Path, settings: Mapping[str, Any] | None = None) -> AsyncIterator[Shared]:
    """A shared agent, ended with `iac-code stop`."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (home / "config").mkdir(parents=True)
    if settings is not None:
        (home / "config" / "settings.json").write_text(json.dumps(settings))
    with tempfile.TemporaryDirectory(prefix="iac-") as runtime:
        async with serving() as double:
            environment = {
                "XDG_RUNTIME_DIR": runtime,
                "ANTHROPIC_API_KEY": "sk-test",
                "ANTHROPIC_BASE_URL": double.base_url,
                "NO_PROXY": "127.0.0.1",
            }
            made = Shared(home, work, environment, double, None, Path(runtime))  # type: ignore[arg-type]
            made.process = await made.serve()
            try:
                yield made
            finally:
                with anyio.CancelScope(shield=True):
                    stopped = await made.run("stop")
                    if stopped.returncode != 0:
                        made.process.kill()
                    await made.process.wait()
                    await made.process.aclose()
            assert stopped.returncode == 0, stopped.stderr
            assert not made.socket.exists()
        assert double.refusals == []


def place(session: str, work: Path) -> dict[str, Any]:
    """The params of a load or resume."""
    return {"sessionId": session, "cwd": str(work), "mcpServers": []}
