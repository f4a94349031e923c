"""The official TypeScript SDK drives the agent: see typescript_client.mjs for what it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.installed import NODE_MODULES, RecordedAgent, node

pytestmark = pytest.mark.timeout(120)
CLIENT = Path(__file__).with_name("typescript_client.mjs")


def test_a_typescript_client_can_do_everything(tmp_path: Path) -> None:
    agent = RecordedAgent(tmp_path)
    done = agent.run(node(), str(CLIENT), str(NODE_MODULES), str(agent.work), *agent.command)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["version"], found["agent"], found["exit"]) == (1, "iac-code", 0)
    assert found["options"] == ["mode", "model", "thinking"]
    assert (found["stopped"], found["denied"], found["resumed"]) == ("end_turn", "end_turn", "end_turn")
    assert found["cancelled"] == "cancelled"
    assert found["mode"] == "plan"
    assert (agent.work / "through.txt").read_text().startswith("by the editor")
    assert not (agent.work / "denied.txt").exists()
    assert len(found["asked"]) == 2
    assert found["replayed"][0] == "user_message_chunk"
    assert "tool_call" in found["replayed"]
    assert (found["forked"], found["listed"], found["error"]) == (True, 2, -32602)
    assert "back again" in found["text"]
    assert "fs/write_text_file" in str(agent.lines())
    agent.check()
