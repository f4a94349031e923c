"""What a session may do, end to end: the sandbox, the project's rules and the audit file together."""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import permission
from tests.e2e.rig import rig, until
from worker import landlock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio


def tool(name: str, **given: Any) -> str:
    return f"@tool {name} {json.dumps(given)}"


def bash(command: str, **more: Any) -> str:
    return tool("bash", command=command, **more)


def audit(r: Rig, session: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (r.sessions / session / "audit.jsonl").read_text().splitlines()]


def asked(r: Rig) -> list[dict[str, Any]]:
    return [m for m in r.client.messages if m.get("method") == "session/request_permission"]


def results(r: Rig, session: str) -> list[str]:
    return [record["text"] for record in r.records(session) if record["kind"] == "tool_result"]


@pytest.mark.skipif(
    landlock.abi() < landlock.USABLE, reason="this kernel has no Landlock: THE SANDBOX IS NOT TESTED HERE"
)
async def test_a_command_writes_only_where_it_may_until_the_user_says_so(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with tempfile.TemporaryDirectory() as elsewhere:
        async with rig(tmp_path, answer_permission="allow_always", env={"TMPDIR": elsewhere}) as r:
            # The reader of commands cannot tell where this leads; the sandbox holds all the same.
            (r.work / "hide.sh").write_text(f"touch {outside}/$1")
            hidden = "sh hide.sh"
            session = await r.client.new_session(r.work)
            await r.client.prompt(session, f"{bash('touch here && touch $TMPDIR/a && ls $TMPDIR')}\n@text ok")
            assert len(asked(r)) == 1
            await r.client.prompt(session, f"{bash(f'{hidden} a')}\n@text ok")
            assert len(asked(r)) == 1
            assert "the sandbox refused this command" in results(r, session)[-1]
            history = r.sessions / session / "history.jsonl"
            (r.work / "forge.sh").write_text(f"echo x >> {history}")
            await r.client.prompt(session, f"{bash('sh forge.sh')}\n@text ok")
            assert "Permission denied" in results(r, session)[-1]
            await r.client.prompt(session, f"{bash(f'{hidden} b', unsandboxed=True)}\n@text ok")
            assert len(asked(r)) == 2
            assert "without the sandbox" in str(asked(r)[-1]["params"]["toolCall"]["content"])
            await r.client.prompt(session, f"{bash(f'{hidden} c', unsandboxed=True)}\n@text ok")
            assert len(asked(r)) == 3
            assert sorted(os.listdir(outside)) == ["b", "c"]
            # What is named and permitted is open for that call.
            await r.client.prompt(session, f"{bash(f'touch {outside}/d')}\n@text ok")
            assert len(asked(r)) == 4
            assert (outside / "d").exists()
            (scratch,) = os.listdir(elsewhere)
            assert os.listdir(f"{elsewhere}/{scratch}") == ["a"]
            kept = {line["tool"]: line for line in audit(r, session)}
            assert kept["bash"]["by"] == "user"
            # Temporary files survive the worker and go with the session.
            r.kill_worker(session)
            await r.client.prompt(session, f"{bash('ls $TMPDIR')}\n@text ok")
            assert results(r, session)[-1].split() == ["a"]
        await until(lambda: os.listdir(elsewhere) == [])


async def test_every_decision_is_audited_with_who_made_it(tmp_path: Path) -> None:
    settings = {"rules": [{"effect": "deny", "tool": "bash", "command": "rm"}], "longest_command": 0.5}
    async with rig(tmp_path, answer_permission=None, settings=settings) as r:
        (r.work / ".iac-code").mkdir()
        mine = {"effect": "deny", "tool": "glob"}
        (r.work / ".iac-code" / "rules.json").write_text(
            json.dumps({"rules": [mine, {"effect": "allow", "tool": "*"}]})
        )
        session = await r.client.new_session(r.work)
        lines = (
            tool("list_files"),
            bash("rm x"),
            tool("glob", pattern="*"),
            tool("write_file", path="a", content="s3cret"),
            tool("write_file", path="b", content="s3cret"),
            tool("write_file", path="c", content="s3cret"),
        )
        prompt = await r.client.begin_prompt(session, "\n".join((*lines, "@text done")))
        for number, kind in enumerate(("reject_once", "allow_always")):
            await r.client.wait_until(lambda number=number: len(asked(r)) > number)  # type: ignore[misc]
            await r.client.respond(asked(r)[number], permission(asked(r)[number], kind))
        await r.client.answer_to(prompt)
        assert "would allow something" in r.client.text(session)
        kept = audit(r, session)
        assert [(line["tool"], line["verdict"], line["by"]) for line in kept] == [
            ("list_files", "allow", "tool"),
            ("bash", "deny", "rule"),
            ("glob", "deny", "rule"),
            ("write_file", "ask", "tool"),
            ("write_file", "deny", "user"),
            ("write_file", "ask", "tool"),
            ("write_file", "allow", "user"),
            ("write_file", "allow", "grant"),
        ]
        assert kept[4]["reason"] == "reject_once"
        path = r.sessions / session / "audit.jsonl"
        assert path.stat().st_mode & 0o777 == 0o600
        assert "s3cret" not in path.read_text()
        assert sorted(os.listdir(r.work)) == [".iac-code", "b", "c"]
        # An audit that cannot be written stops nothing.
        path.unlink()
        path.mkdir()
        answer = await r.client.prompt(session, f"{tool('list_files')}\n@text on")
        assert answer["result"]["stopReason"] == "end_turn"
        assert results(r, session)[-1].split() == [".iac-code/", "b", "c"]
