"""acpx, a command-line client: a process a command, strict on stderr, resuming sessions by itself."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.clients.installed import NODE_MODULES, PATIENCE, RecordedAgent, node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)
STRICT = ("--format", "json", "--json-strict")


@pytest.fixture
def agent(tmp_path: Path) -> RecordedAgent:
    """The agent, as acpx starts it."""
    return RecordedAgent(tmp_path)


def acpx(agent: RecordedAgent, *words: str) -> list[str]:
    """The command for acpx with the agent."""
    program = NODE_MODULES / "acpx" / "dist" / "cli.js"
    return [node(), str(program), "--agent", shlex.join(agent.command), *words]


def test_one_shot_with_strict_json_and_a_silent_stderr(agent: RecordedAgent) -> None:
    done = agent.run(*acpx(agent, *STRICT, "--approve-all", "exec", "run echo made > made.txt\nsay all done"))
    assert (done.returncode, done.stderr) == (0, "")
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert messages[-1]["result"]["stopReason"] == "end_turn"
    assert "all done" in done.stdout
    assert (agent.work / "made.txt").read_text() == "made\n"
    assert "session/request_permission" in str(agent.lines())
    agent.check()


def test_deny_all_denies(agent: RecordedAgent) -> None:
    done = agent.run(*acpx(agent, "--deny-all", "exec", "run echo made > made.txt"))
    assert done.returncode == 5, done.stderr
    assert "Permission denied" in done.stdout
    assert not (agent.work / "made.txt").exists()
    agent.check()


def test_a_timeout_ends_the_turn_and_the_agent(agent: RecordedAgent) -> None:
    done = agent.run(*acpx(agent, "--timeout", "1", "exec", "count to 1000 slowly"))
    assert done.returncode == 3, done.stdout
    assert "Timed out" in done.stderr
    agent.check()


def test_a_named_session_goes_on_over_processes_and_is_cancelled_from_another(agent: RecordedAgent) -> None:
    ensured = agent.run(*acpx(agent, *STRICT, "sessions", "new", "--name", "one"))
    assert ensured.returncode == 0, ensured.stderr
    session = json.loads(ensured.stdout)["acpxSessionId"]

    prompt = acpx(agent, *STRICT, "--ttl", "1", "prompt", "-s", "one")
    first = agent.run(*prompt, "say remember 4711")
    assert (first.returncode, first.stderr) == (0, "")
    # acpx keeps the agent for its --ttl. The next command is to find neither.
    queues = agent.home / ".acpx" / "queues"
    wait_until(lambda: not any(queues.iterdir()))
    with subprocess.Popen(
        [*prompt, "say so far:\nsummarize\ncount to 1000 slowly"],
        cwd=agent.work,
        env=agent.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as second:
        assert second.stdout is not None
        shown = ""
        while " 3" not in shown:
            line = second.stdout.readline()
            assert line, "it ended before it counted"
            shown += json.loads(line)["params"]["update"]["content"]["text"] if "_chunk" in line else ""
        cancelled = agent.run(*acpx(agent, *STRICT, "cancel", "-s", "one"))
        assert cancelled.returncode == 0, cancelled.stderr
        rest, _ = second.communicate(timeout=PATIENCE)
    assert "remember 4711" in shown, "the history came back"
    assert '"stopReason":"cancelled"' in rest
    agent.check()

    methods = agent.methods()
    assert methods.count("initialize") == 3
    assert methods.count("session/new") == 1
    assert methods.count("session/resume") + methods.count("session/load") == 2
    assert "session/cancel" in methods
    named = {m["params"].get("sessionId") for mark, m in agent.lines() if mark == b">" and "params" in m}
    assert named == {None, session}


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does, which no event here tells."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
