"""acpx and a client of our own side by side on one shared agent."""

from __future__ import annotations

import json
import shlex
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio import to_thread

from tests.clients.installed import NODE_MODULES, RecordedAgent, node
from tests.e2e.client import AGENT, start_agent
from tests.e2e.rig import until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
SERVE, STOP = [*AGENT[:-1], "serve"], [*AGENT[:-1], "stop"]


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[RecordedAgent]:
    """The agent as acpx starts it, with a shared one running."""
    node()
    with tempfile.TemporaryDirectory(prefix="iac-") as runtime:
        made = RecordedAgent(tmp_path, XDG_RUNTIME_DIR=runtime)
        async with await anyio.open_process(SERVE, env=made.environment, start_new_session=True) as daemon:
            await until((Path(runtime) / "iac-code" / "shared.sock").exists)
            yield made
            # acpx ends its agent with all its descendants: the daemon is none of them.
            assert daemon.returncode is None
            stopped = await anyio.run_process(STOP, env=made.environment, check=False)
            assert stopped.returncode == 0, stopped.stderr
            await daemon.wait()
        made.check()


async def test_acpx_and_a_client_of_ours_share_a_session_and_neither_disturbs_the_other(
    agent: RecordedAgent,
) -> None:
    program = [node(), str(NODE_MODULES / "acpx" / "dist" / "cli.js"), "--agent", shlex.join(agent.command)]
    strict = ("--format", "json", "--json-strict")

    async def acpx(*words: str) -> subprocess.CompletedProcess[str]:
        return await to_thread.run_sync(partial(agent.run, *program, *words))

    async with start_agent(agent.home, env=agent.environment, cwd=agent.work) as own:
        await own.initialize()
        mine = await own.new_session(agent.work)
        running = await own.begin_prompt(mine, "count to 1000 slowly")
        await own.wait_text(mine, " 3")
        ensured = await acpx(*strict, "sessions", "new", "--name", "one")
        assert ensured.returncode == 0, ensured.stderr
        session = json.loads(ensured.stdout)["acpxSessionId"]
        await own.call("session/load", {"sessionId": session, "cwd": str(agent.work), "mcpServers": []})
        told = await acpx(
            *strict,
            "--approve-all",
            "--ttl",
            "1",
            "prompt",
            "-s",
            "one",
            "run echo made > made.txt\nsay done-by-acpx",
        )
        assert (told.returncode, told.stderr) == (0, ""), told.stdout
        assert "done-by-acpx" in told.stdout
        await own.wait_text(session, "done-by-acpx")
        assert (agent.work / "made.txt").read_text() == "made\n"
        (typed,) = own.updates(session, "user_message_chunk")
        assert "say done-by-acpx" in typed["content"]["text"]
        assert (await own.prompt(session, "say from-us"))["result"]["stopReason"] == "end_turn"
        # acpx keeps its own end for --ttl, and while that ends it takes nothing.
        await until(lambda: not any((agent.home / ".acpx" / "queues").iterdir()))
        shown = await acpx(*strict, "--approve-all", "--ttl", "1", "prompt", "-s", "one", "summarize")
        assert (shown.returncode, shown.stderr) == (0, ""), shown.stdout
        await own.notify("session/cancel", {"sessionId": mine})
        assert (await own.answer_to(running))["result"]["stopReason"] == "cancelled"
