"""conduit-agent-sdk, a client in Rust whose types refuse what they do not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.installed import RecordedAgent, conduit_python

pytestmark = pytest.mark.timeout(120)
CLIENT = Path(__file__).with_name("conduit_client.py")


def test_a_strict_client_reads_every_update(tmp_path: Path) -> None:
    agent = RecordedAgent(tmp_path)
    # Its own Python must not see the packages of ours; the agent is told of them by the command.
    path = agent.environment["PYTHONPATH"]
    agent.environment = {k: v for k, v in agent.environment.items() if k != "PYTHONPATH"}
    command = ["env", f"PYTHONPATH={path}", *agent.command]
    done = agent.run(conduit_python(), str(CLIENT), str(agent.work), *command)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = json.loads(done.stdout)
    assert found["agent"]["name"] == "iac-code"
    assert "hello from rust" in found["text"]
    assert found["kinds"][-1].endswith("Done")
    assert len(found["sessions"]) == 1
    assert found["options"]["configOptions"][0]["currentValue"] == "accept_edits"
    assert "loaded" in found["loaded"]
    assert (agent.work / "a.txt").exists()
    assert {"session/fork", "session/load", "session/set_config_option"} <= set(agent.methods())
    agent.check()
