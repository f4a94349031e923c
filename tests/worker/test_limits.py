"""What a session is held to: its roots, the project's rules, the audit file, what is suspended."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from shared.records import AssistantRecord, Record, ToolResultRecord
from shared.settings import RuleSetting, Settings
from worker.audit import Audit, subject_of
from worker.boundaries import resolve, sensitive
from worker.limits import find_limits, suspended
from worker.permissions import Mode, Policy, call_of, decide
from worker.project_rules import FILE, project_rules
from worker.rules import Rule, rules_of
from worker.tools import load_tools

if TYPE_CHECKING:
    from pathlib import Path

    from worker.limits import Limits

TOOLS = load_tools()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = resolve(tmp_path) / "project"
    made.mkdir()
    return made


def limits(folder: Path, *directories: Path, settings: Settings | None = None) -> Limits:
    return find_limits(folder, directories, folder.parent / "session", 1, settings or Settings(), os.environ)


def write_rules(folder: Path, content: Any) -> None:
    (folder / FILE).parent.mkdir(exist_ok=True)
    (folder / FILE).write_text(content if isinstance(content, str) else json.dumps(content))


def verdict(folder: Path, rules: tuple[Rule, ...], tool: str, mode: Mode = "default", **given: Any) -> str:
    found = TOOLS[tool]
    judged = call_of(found, found.Input.model_validate(given), folder)
    return decide(judged, Policy(mode, (folder,), dict.fromkeys(TOOLS, True), rules=rules)).verdict


# Folders


def test_the_roots_are_the_sessions_folders_resolved(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = limits(folder, tmp_path / "link")
    assert found.of_client == (folder, resolve(tmp_path) / "real")
    assert found.roots[:2] == found.of_client
    assert resolve(tmp_path) / "session" / "spill" in found.roots
    assert found.notices == []


def test_a_folder_within_that_leads_out_is_no_root_and_that_is_told(folder: Path, tmp_path: Path) -> None:
    (folder / "within").symlink_to("/etc")
    (folder / "kept").mkdir()
    found = limits(folder, folder / "within", folder / "kept")
    assert found.of_client == (folder, folder / "kept")
    assert str(folder / "within") in found.untold()[0]
    assert found.untold() == []


# The project's rules


def test_a_project_may_forbid_and_ask(folder: Path) -> None:
    deny = {"effect": "deny", "tool": "bash", "command": "terraform apply"}
    ask = {"effect": "ask", "tool": "edit_file", "path": "prod/**"}
    write_rules(folder, {"rules": [deny, ask]})
    rules, told = project_rules(folder)
    assert told == []
    assert verdict(folder, rules, "bash", command="terraform apply -auto-approve") == "deny"
    assert verdict(folder, rules, "bash", command="terraform plan") == "allow"
    edit = {"old_string": "a", "new_string": "b"}
    assert verdict(folder, rules, "edit_file", "bypass_permissions", path="prod/x.tf", **edit) == "ask"
    assert verdict(folder, rules, "edit_file", "bypass_permissions", path="x.tf", **edit) == "allow"


@pytest.mark.parametrize(
    "rule",
    [
        {"effect": "allow", "tool": "*"},
        {"effect": "allow", "tool": "*", "path": "/etc/**"},
        {"effect": "allow", "tool": "bash", "command": "rm"},
        {"effect": "allow", "tool": "read_file", "path": "~/**"},
    ],
)
def test_a_project_cannot_allow(folder: Path, rule: dict[str, str]) -> None:
    write_rules(folder, {"rules": [rule]})
    found = limits(folder, settings=Settings(rules=(RuleSetting(effect="deny", tool="web_fetch"),)))
    assert found.rules == (Rule("deny", "web_fetch"),)
    assert "would allow something" in found.untold()[0]


def test_a_project_cannot_undo_a_rule_of_the_users(folder: Path) -> None:
    write_rules(folder, {"rules": [{"effect": "ask", "tool": "*"}, {"effect": "allow", "tool": "*"}]})
    for mine in (Rule("deny", "bash"), Rule("ask", "bash")):
        rules = (mine, *project_rules(folder)[0])
        assert verdict(folder, rules, "bash", command="ls") == mine.effect


UNUSABLE = [
    "",
    "{",
    "[]",
    "null",
    '{"rules": 5}',
    '{"rules": [{"effect": "deny"}]}',
    '{"rules": [{"effect": "permit", "tool": "*"}]}',
    '{"rules": [], "sandbox": {"enabled": false}}',
    json.dumps({"rules": [{"effect": "deny", "tool": "bash"}] * 300}),
    " " * 70_000,
    "\udcff",
]


@pytest.mark.parametrize("number", range(len(UNUSABLE) + 3))
def test_a_file_that_cannot_be_used_drops_nothing_that_it_may_forbid(folder: Path, number: int) -> None:
    path = folder / FILE
    path.parent.mkdir()
    if number < len(UNUSABLE):
        path.write_bytes(UNUSABLE[number].encode("utf-8", "surrogateescape"))
    else:
        (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero"))[number - len(UNUSABLE)]()
    rules, told = project_rules(folder)
    assert "cannot be used" in told[0]
    assert verdict(folder, rules, "bash", "bypass_permissions", command="ls") == "ask"


def test_no_file_is_no_rules(folder: Path) -> None:
    assert project_rules(folder) == ((), [])
    (folder / FILE.parent).touch()
    assert project_rules(folder) == ((), [])


def test_the_file_itself_asks(folder: Path) -> None:
    assert sensitive(folder / FILE)


def test_a_reason_tells_whose_rule_it_is(folder: Path) -> None:
    write_rules(folder, {"rules": [{"effect": "deny", "tool": "bash"}]})
    tool = TOOLS["bash"]
    judged = call_of(tool, tool.Input.model_validate({"command": "ls"}), folder)
    decision = decide(judged, Policy("default", (folder,), rules=project_rules(folder)[0]))
    assert (decision.verdict, decision.by) == ("deny", "rule")
    assert str(FILE) in decision.reason
    assert rules_of([RuleSetting(effect="deny", tool="bash")])[0].source == "the user's settings"


# Suspended


def turn(name: str, given: dict[str, str], *, interrupted: bool) -> list[Record]:
    made: dict[str, Any] = {"epoch": 1, "time": 0.0, "turn_id": "t"}
    call = {"type": "tool_use", "id": "c", "name": name, "input": given}
    return [
        AssistantRecord(**made, message_id="m", model="", blocks=[call], stop_reason="tool_use"),
        ToolResultRecord(
            **made,
            call_id="c",
            tool=name,
            text="",
            is_error=True,
            interrupted=interrupted,
            content=[],
            raw_output={},
        ),
    ]


def test_what_was_interrupted_is_suspended_and_for_a_sub_agent_all_that_changes_something() -> None:
    assert suspended(turn("bash", {"command": "x"}, interrupted=False), TOOLS) == {}
    assert suspended(turn("bash", {"command": "x"}, interrupted=True), TOOLS) == {"bash": "bash"}
    found = suspended(turn("agent", {"prompt": "x"}, interrupted=True), TOOLS)
    assert set(found) == {name for name, tool in TOOLS.items() if not tool.read_only}
    assert set(found.values()) == {"agent"}
    assert suspended(turn("agent", {"prompt": "x", "type": "explore"}, interrupted=True), TOOLS) == {}


# The audit


@pytest.mark.anyio
async def test_the_audit_is_private_and_holds_decisions_but_no_contents(folder: Path) -> None:
    path = folder / "audit.jsonl"
    audit = Audit(path, 3)
    for name, given in (
        ("bash", {"command": "curl x"}),
        ("write_file", {"path": "a.txt", "content": "s3cret"}),
        ("edit_file", {"path": "a.txt", "old_string": "s3cret", "new_string": "s3cret"}),
        ("web_fetch", {"url": "https://u:s3cret@example.com/page?key=s3cret#s3cret"}),
        ("web_fetch", {"url": "https://[s3cret"}),
        ("agent", {"prompt": "s3cret"}),
        ("grep", {"pattern": "s3cret"}),
    ):
        args = TOOLS[name].Input.model_validate(given)
        subject = subject_of(call_of(TOOLS[name], args, folder), args)
        await audit.write("t", "c", "p", subject, {"verdict": "allow", "by": "user", "reason": "allow_once"})
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert "s3cret" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["tool"] for line in lines][:3] == ["bash", "write_file", "edit_file"]
    assert lines[0]["command"] == "curl x"
    assert lines[1]["paths"] == [{"path": str(folder / "a.txt"), "write": True}]
    assert lines[3]["url"] == "https://example.com/page"
    assert {"time", "epoch", "turn_id", "call_id", "parent", "verdict", "by", "reason"} <= lines[0].keys()


@pytest.mark.anyio
async def test_an_audit_that_cannot_be_written_is_logged_once_and_stops_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "link").symlink_to("elsewhere")
    for path in (folder, folder / "no" / "such", folder / "link"):
        caplog.clear()
        audit = Audit(path, 1)
        with caplog.at_level(logging.ERROR):
            await audit.write("t", "c", None, {"tool": "bash"}, {"verdict": "allow"})
            await audit.write("t", "c", None, {"tool": "bash"}, {"verdict": "allow"})
        assert len(caplog.records) == 1
    assert not (folder / "elsewhere").exists()
