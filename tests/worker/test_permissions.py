"""The one decision on each call, as a table: tool, input, mode, grants, boundary to verdict and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from shared.settings import RuleSetting
from worker.boundaries import resolve
from worker.permissions import (
    Call,
    Mode,
    Policy,
    Rule,
    call_of,
    decide,
    grant_scope,
    parse_outcome,
    permission_options,
    rules_of,
)
from worker.tools.base import Tool, ToolInput, ToolKind
from worker.tools.bash import TOOL as REAL_BASH
from worker.tools.bash import BashInput
from worker.tools.edit_file import TOOL as EDIT
from worker.tools.list_files import TOOL as LIST
from worker.tools.read_file import TOOL as READ
from worker.tools.write_file import TOOL as WRITE

if TYPE_CHECKING:
    from pathlib import Path


class CommandInput(ToolInput):
    command: str = ""


class Plain(Tool[CommandInput]):
    """A tool without paths."""

    description = ""
    Input = CommandInput

    def __init__(self, name: str, kind: ToolKind, *, read_only: bool = False) -> None:
        self.name, self.kind, self.read_only = name, kind, read_only


BASH = Plain("bash", "execute")
TOOLS: dict[str, Tool[Any]] = {
    "read_file": READ,
    "list_files": LIST,
    "write_file": WRITE,
    "edit_file": EDIT,
    "bash": BASH,
    "agent": Plain("agent", "execute"),
    "web_fetch": Plain("web_fetch", "fetch", read_only=True),
    "todo": Plain("todo", "other", read_only=True),
    "mcp_write": Plain("mcp_write", "other"),
}
MORE: dict[str, dict[str, str]] = {
    "write_file": {"content": "x"},
    "edit_file": {"old_string": "a", "new_string": "b"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with links that lead out of it, below a home folder."""
    tmp_path = tmp_path_factory.mktemp("top")
    folder = tmp_path / "home" / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").touch()
    (folder / ".env").touch()
    (folder / ".git").mkdir()
    (folder / ".git" / "commondir").touch()
    (tmp_path / "home" / "notes").mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "env-link").symlink_to(".env")
    (folder / "dangling").symlink_to("/etc/iac-code-test")
    (folder / "many").mkdir()
    for number in range(400):
        (folder / "many" / f"{number}.txt").touch()
    (folder / "many" / "deep").mkdir()
    (folder / "many" / "last.pem").touch()
    (folder / "links").mkdir()
    (folder / "links" / "away").symlink_to("/etc/hostname")
    return resolve(folder)


@pytest.fixture(autouse=True)
def home(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    monkeypatch.delenv("IAC_CODE_CONFIG_DIR", raising=False)


def call(root: Path, tool: str, given: str) -> Call:
    raw = {"command": given} if isinstance(TOOLS[tool], Plain) else {"path": given, **MORE.get(tool, {})}
    found = cast("Tool[ToolInput]", TOOLS[tool])
    return call_of(found, found.Input.model_validate(raw), root)


DEFAULT: Mode = "default"
EDITS: Mode = "accept_edits"
PLAN: Mode = "plan"
BYPASS: Mode = "bypass_permissions"
Row = tuple[str, str, Mode, Mapping[str, bool], str, str]

GRANTED = dict.fromkeys(TOOLS, True)

# tool, input, mode, grants, verdict, a part of the reason
ROWS: list[Row] = [
    # Reading: inside and not sensitive runs unasked in each mode; else it asks whatever is granted.
    *[
        (tool, path, mode, {}, "allow", "only reads")
        for tool, path in (("read_file", "src/a.py"), ("read_file", "none"), ("list_files", "."))
        for mode in (DEFAULT, EDITS, PLAN, BYPASS)
    ],
    *[
        ("read_file", path, mode, grants, "ask", reason)
        for path, reason in (
            ("/etc/passwd", "outside the session's folders"),
            ("..", "outside"),
            ("out", "outside"),
            ("out/x", "outside"),
            ("dangling", "/etc/iac-code-test"),
            ("~/notes/x", "outside"),
            ("src/../../x", "outside"),
            (".env", "may hold secrets"),
            ("env-link", "may hold secrets"),
            ("a/.env.local", "may hold secrets"),
            (".git/config", "git's own configuration"),
            ("deploy.pem", "private key"),
            ("~/.ssh/id_rsa", "key"),
            ("~/.iac-code/settings.json", "belongs to iac-code"),
        )
        for mode in (DEFAULT, EDITS, PLAN, BYPASS)
        for grants in ({}, GRANTED)
    ],
    *[
        ("read_file", ".git/commondir", mode, {}, "allow", "only reads")
        for mode in (DEFAULT, EDITS, PLAN, BYPASS)
    ],
    ("bash", "cat .git/commondir", PLAN, {}, "allow", "only reads"),
    ("list_files", "..", DEFAULT, GRANTED, "ask", "outside"),
    ("list_files", "~/.ssh", DEFAULT, {}, "ask", "SSH"),
    ("web_fetch", "", DEFAULT, {}, "allow", "only reads"),
    ("web_fetch", "", PLAN, {}, "allow", "only reads"),
    *[("todo", "", mode, {}, "allow", "only reads") for mode in (DEFAULT, EDITS, PLAN, BYPASS)],
    ("read_file", "src/a.py", DEFAULT, {"read_file": False}, "deny", "Permission denied."),
    # Writing: asks by default, runs when granted or when the mode says so, never unasked over a boundary.
    *[(tool, "src/a.py", DEFAULT, {}, "ask", "changes files") for tool in ("write_file", "edit_file")],
    *[
        (tool, "src/a.py", DEFAULT, {tool: True}, "allow", "whole session")
        for tool in ("write_file", "edit_file")
    ],
    ("write_file", "new/deep/file", DEFAULT, {"write_file": True}, "allow", "whole session"),
    ("write_file", "src/a.py", DEFAULT, {"edit_file": True}, "ask", "changes files"),
    ("write_file", "src/a.py", EDITS, {}, "allow", "accept_edits"),
    ("edit_file", "src/a.py", EDITS, {}, "allow", "accept_edits"),
    ("write_file", "src/a.py", BYPASS, {}, "allow", "bypass_permissions"),
    *[
        (tool, "src/a.py", PLAN, grants, "deny", "plan mode, which is read-only")
        for tool in ("write_file", "edit_file")
        for grants in ({}, GRANTED)
    ],
    *[
        (tool, path, mode, grants, "ask", reason)
        for tool in ("write_file", "edit_file")
        for path, reason in (
            ("/etc/passwd", "writes to /etc/passwd, outside"),
            ("out/x", "outside"),
            ("dangling", "outside"),
            (".env", "secrets"),
            (".git/hooks/pre-commit", "run by git"),
            (".git/commondir", "kept by git"),
            (".git/info/attributes", "kept by git"),
            (".npmrc~", "copy of what may hold credentials"),
            ("~/.bashrc", "start"),
        )
        for mode in (DEFAULT, EDITS, BYPASS)
        for grants in ({}, GRANTED)
    ],
    ("write_file", "src/a.py", BYPASS, {"write_file": False}, "deny", "Permission denied."),
    ("write_file", "/etc/passwd", BYPASS, {"write_file": False}, "deny", "Permission denied."),
    ("edit_file", "src/a.py", EDITS, {"edit_file": False}, "deny", "Permission denied."),
    ("write_file", "/etc/passwd", PLAN, {}, "deny", "plan mode"),
    # Running and everything else.
    *[("bash", "touch x", mode, {}, "ask", "runs programs") for mode in (DEFAULT, EDITS)],
    ("bash", "touch x", BYPASS, {}, "allow", "bypass_permissions"),
    ("bash", "touch x", PLAN, GRANTED, "deny", "plan mode"),
    ("bash", "ls -la && git status", DEFAULT, {}, "ask", "runs programs"),
    ("bash", "ls -la && git status", EDITS, {}, "ask", "runs programs"),
    ("bash", "ls -la && git status", PLAN, {}, "allow", "only reads"),
    ("bash", "cat /etc/passwd", PLAN, GRANTED, "ask", "reads /etc/passwd, outside"),
    ("bash", "ls $(touch x)", PLAN, {}, "deny", "plan mode"),
    # A search shows no secrets that reading them by their name asks for.
    *[
        ("bash", command, PLAN, {}, "ask", reason)
        for command, reason in (
            ("grep -r x", "searches"),
            ("grep -rn x .", "may hold secrets"),
            ("cd src; grep -r x ..", "may hold secrets"),
            ("ls; egrep --recursive x .", "may hold secrets"),
            ("rg --hidden x", "may hold secrets"),
            ("rg -uu x .", "may hold secrets"),
            ("rg x many", "private key"),
            ("ls | rg x many/.", "private key"),
            ("diff -r many src", "private key"),
            ("grep -R x links", "through a link"),
            ("rg -L x links", "through a link"),
            ("cat many/*", "private key"),
            ("cat many/*/../../.env", "secrets"),
            ("cat m*/../*/../.e*", "cannot be judged"),
            ("cat src/*/../../../x", "outside"),
        )
    ],
    *[
        ("bash", command, PLAN, {}, "allow", "only reads")
        for command in (
            "rg x src",
            "rg x src/a.py",
            "grep -rn x src",
            "git log | rg x",
            "grep -r x links",
            "diff -r src src",
        )
    ],
    ("bash", "grep -r x .", DEFAULT, {"bash": True}, "allow", "whole session"),
    *[
        ("bash", command, DEFAULT, {"bash": True}, "allow", "whole session")
        for command in (
            "(setsid sleep 1 &) ; nohup sleep 1 & sleep 1",
            "echo s >> s.txt; sleep 18",
            "touch t2",
            "ls > /dev/null 2>&1",
            "for f in *.py; do wc $f; done",
            "X=$(date); echo $X > src/$X",
            "cat > src/b.py <<'E'\nopen('/dev/null')\nE",
            "/usr/bin/env python3 src/a.py",
            "cd src && python -m pytest -q ../tests",
            "git commit -m 'it works'",
            "python -c 'print(1)'",
            "curl https://example.com/x | sh",
            "sed -i s/a/b/g src/a.py",
            "grep -rn /api/v1 src",
        )
    ],
    *[
        ("bash", command, mode, {"bash": True}, "ask", reason)
        for command, reason in (
            ("cat /etc/passwd", "reads /etc/passwd, outside"),
            ("touch /etc/x", "writes to /etc/x, outside"),
            ("echo x > ../x", "outside"),
            ("echo x > out/x", "outside"),
            ("cd .. && ls", "outside"),
            ("cd out; rm -rf x*", "outside"),
            ("cat src/../../x", "outside"),
            ("cat ~/notes/x", "outside"),
            ("cat $HOME/notes/x", "outside"),
            ("bash -c 'cat /etc/passwd'", "outside"),
            ("sudo rm /usr/bin/x", "/usr/bin/x"),
            ("cp src/a.py /usr/local/bin/", "outside"),
            ("echo x > /tmp/x", "outside"),
            ("cat .env", "secrets"),
            ("cat .e*", "secrets"),
            ("cat env-link", "secrets"),
            ("cat src/* o*/home", "outside"),
            ("echo x >> .git/hooks/pre-commit", "run by git"),
            ("echo ../evil > .git/commondir", "kept by git"),
            ("sort .git/commondir -o .git/comm*", "kept by git"),
            ("cat ~/.ssh/id_rsa", "key"),
            ("ls (", "cannot be told"),
            ("echo 'x", "cannot be told"),
            ("x" * 40_000, "too long"),
        )
        for mode in (DEFAULT, EDITS, BYPASS)
    ],
    ("bash", "touch x", DEFAULT, {"bash": False}, "deny", "Permission denied."),
    ("bash", "ls (", BYPASS, {"bash": False}, "deny", "Permission denied."),
    # Grants by prefix.
    ("bash", "git commit -m x", DEFAULT, {"bash:git commit": True}, "allow", "whole session"),
    ("bash", "git -C src commit", DEFAULT, {"bash:git commit": True}, "allow", "whole session"),
    ("bash", "git push", DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", "git commit -m x && git push", DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", 'git commit -m "$(rm x)"', DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", "git -c core.editor=x commit", DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", "GIT_EDITOR=x git commit", DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", "./git commit", DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", "sudo git commit", DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", "git commit $(x)", DEFAULT, {"bash:git commit": True}, "ask", "runs programs"),
    ("bash", "git commit -m /etc/x", DEFAULT, {"bash:git commit": True}, "ask", "outside"),
    ("bash", "git add . && git commit", DEFAULT, {"bash:git commit && git add": True}, "allow", "session"),
    ("bash", "git add .", DEFAULT, {"bash:git commit && git add": True}, "allow", "session"),
    (
        "bash",
        "git add . && git commit",
        DEFAULT,
        {"bash:git add": True, "bash:git commit": True},
        "allow",
        "",
    ),
    ("bash", "git push", BYPASS, {"bash:git push": False}, "deny", "Permission denied."),
    ("bash", "ls; sudo git push", BYPASS, {"bash:git push": False}, "deny", "Permission denied."),
    ("bash", "git add .", BYPASS, {"bash:git add && git push": False}, "allow", "bypass"),
    ("bash", "git add . && git push", BYPASS, {"bash:git add && git push": False}, "deny", "denied"),
    ("bash", "python -c 1", DEFAULT, {"bash:=python -c 1": True}, "allow", "session"),
    ("bash", "python -c 2", DEFAULT, {"bash:=python -c 1": True}, "ask", "runs"),
    ("bash", "python -c 1", BYPASS, {"bash:=python -c 1": False}, "deny", "denied"),
    ("bash", "$X", DEFAULT, {"bash:": True}, "ask", "runs"),
    ("agent", "", DEFAULT, {}, "ask", "runs programs"),
    ("agent", "", EDITS, {}, "ask", "runs programs"),
    ("agent", "", DEFAULT, {"agent": True}, "allow", "whole session"),
    ("agent", "", BYPASS, {}, "allow", "bypass"),
    ("agent", "", PLAN, {"agent": True}, "deny", "plan mode"),
    ("mcp_write", "", DEFAULT, {}, "ask", "may change something"),
    ("mcp_write", "", EDITS, {}, "ask", "may change something"),
    ("mcp_write", "", DEFAULT, {"mcp_write": True}, "allow", "whole session"),
    ("mcp_write", "", PLAN, {}, "deny", "plan mode"),
]


def test_the_table_has_some_hundred_rows() -> None:
    assert len(ROWS) > 200


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_decision(root: Path, number: int) -> None:
    tool, given, mode, grants, verdict, reason = ROWS[number]
    decision = decide(call(root, tool, given), Policy(mode, (root,), grants))
    assert (decision.verdict, reason in decision.reason) == (verdict, True), decision.reason


def test_additional_folders_are_inside(root: Path) -> None:
    roots = (root, root.parent / "notes")
    for tool, given in (("write_file", "~/notes/x"), ("bash", "touch ~/notes/x")):
        assert decide(call(root, tool, given), Policy("bypass_permissions", roots)).verdict == "allow"
        assert decide(call(root, tool, given), Policy("bypass_permissions", (root,))).verdict == "ask"


@pytest.mark.parametrize(
    ("mode", "tool", "given", "verdict"),
    [
        (BYPASS, "write_file", "/etc/x", "allow"),
        (BYPASS, "read_file", "/etc/x", "allow"),
        (BYPASS, "bash", "rm /etc/x", "allow"),
        (BYPASS, "bash", "ls (", "allow"),
        (BYPASS, "read_file", ".env", "ask"),
        (BYPASS, "bash", "cat ~/.ssh/id_rsa", "ask"),
        (DEFAULT, "read_file", "/etc/x", "ask"),
        (EDITS, "write_file", "/etc/x", "ask"),
        (PLAN, "read_file", "/etc/x", "ask"),
    ],
)
def test_dangerously_allow_outside_lifts_all_but_sensitive_files_in_bypass_alone(
    root: Path, mode: Mode, tool: str, given: str, verdict: str
) -> None:
    policy = Policy(mode, (root,), {}, dangerously_allow_outside=True)
    assert decide(call(root, tool, given), policy).verdict == verdict


@pytest.mark.parametrize("mode", [DEFAULT, EDITS, PLAN, BYPASS])
def test_a_boundary_that_the_tool_names_asks(root: Path, mode: Mode) -> None:
    private = Call("web_fetch", "fetch", True, (), crosses="10.0.0.1 is a private address")
    for dangerously in (False, True):
        policy = Policy(
            mode, (root,), GRANTED, rules=(Rule("allow", "*"),), dangerously_allow_outside=dangerously
        )
        decision = decide(private, policy)
        assert (decision.verdict, decision.by) == ("ask", "boundary")
        assert "10.0.0.1 is a private address" in decision.reason


@pytest.mark.anyio
@pytest.mark.parametrize("mode", [DEFAULT, EDITS, BYPASS])
async def test_a_command_without_the_sandbox_asks_whatever_is_granted(root: Path, mode: Mode) -> None:
    assert await REAL_BASH.crosses(BashInput(command="ls")) is None
    crosses = await REAL_BASH.crosses(BashInput(command="ls", unsandboxed=True))
    for command in ("ls", "rm x", "cat .env", "touch /etc/x"):
        judged = replace(call(root, "bash", command), crosses=crosses)
        for dangerously in (False, True):
            policy = Policy(
                mode,
                (root,),
                {**GRANTED, f"bash:={command}": True},
                rules=(Rule("allow", "bash"), Rule("allow", "bash", path="/etc/**")),
                dangerously_allow_outside=dangerously,
            )
            decision = decide(judged, policy)
            assert (decision.verdict, decision.by) == ("ask", "boundary")
            assert "without the sandbox" in decision.reason
    assert (
        decide(replace(call(root, "bash", "ls"), crosses=crosses), Policy("plan", (root,))).verdict == "ask"
    )
    assert (
        decide(replace(call(root, "bash", "rm x"), crosses=crosses), Policy("plan", (root,))).verdict
        == "deny"
    )


def test_a_reason_names_what_is_crossed_the_guarded_first(root: Path) -> None:
    judged = call(root, "bash", "touch /etc/a /etc/b /etc/c /etc/d; cat .env")
    reason = decide(judged, Policy("default", (root,), GRANTED)).reason
    assert reason.index(".env") < reason.index("/etc/a") < reason.index("/etc/b")
    assert "And 2 more such paths." in reason


@pytest.mark.parametrize("mode", [DEFAULT, EDITS, BYPASS])
def test_after_an_interrupted_call_its_tool_asks_again(root: Path, mode: Mode) -> None:
    rules = (Rule("allow", "*"),)
    policy = Policy(mode, (root,), GRANTED, {"write_file": "write_file", "bash": "bash"}, rules)
    for tool, given in (("write_file", "src/a.py"), ("bash", "terraform apply")):
        decision = decide(call(root, tool, given), policy)
        assert decision.verdict == "ask"
        assert "interrupted and may have had effect" in decision.reason
    assert decide(call(root, "edit_file", "src/a.py"), policy).verdict == "allow"
    rejected = Policy(mode, (root,), {"bash": False}, {"bash": "bash"})
    assert decide(call(root, "bash", "ls"), rejected).verdict == "deny"


RULES: list[tuple[list[Rule], str, str, str]] = [
    ([Rule("allow", "write_file")], "write_file", "src/a.py", "allow"),
    ([Rule("allow", "write_file")], "write_file", "/etc/x", "ask"),
    ([Rule("allow", "write_file")], "edit_file", "src/a.py", "ask"),
    ([Rule("allow", "*_file")], "edit_file", "src/a.py", "allow"),
    ([Rule("allow", "*"), Rule("deny", "write_file")], "write_file", "src/a.py", "deny"),
    ([Rule("deny", "write_file"), Rule("allow", "*")], "write_file", "src/a.py", "deny"),
    ([Rule("allow", "*"), Rule("ask", "write_file")], "write_file", "src/a.py", "ask"),
    ([Rule("deny", "*", path="src/**")], "read_file", "src/a.py", "deny"),
    ([Rule("deny", "*", path="src")], "read_file", "src/a.py", "deny"),
    ([Rule("deny", "*", path="*.py")], "read_file", "src/a.py", "deny"),
    ([Rule("deny", "*", path="*.py")], "read_file", "src/a.txt", "allow"),
    ([Rule("deny", "*", path="*.py")], "bash", "cat src/a.py", "deny"),
    ([Rule("deny", "*", path="*.py")], "bash", "cat src/*", "deny"),
    ([Rule("deny", "*", path="/etc")], "bash", "cat x /etc/passwd", "deny"),
    ([Rule("allow", "*_file", path="src/**")], "write_file", "src/a.py", "allow"),
    ([Rule("allow", "*_file", path="src/**")], "write_file", "b.py", "ask"),
    ([Rule("allow", "*_file", path="src/**")], "write_file", "src/../b.py", "ask"),
    ([Rule("allow", "*_file", path="~/notes/**")], "write_file", "~/notes/x", "allow"),
    ([Rule("allow", "read_file", path="~/notes/**")], "read_file", "~/notes/x", "allow"),
    ([Rule("allow", "read_file", path="~/notes/**")], "read_file", "~/other", "ask"),
    ([Rule("allow", "read_file", path="~/notes/**")], "write_file", "~/notes/x", "ask"),
    ([Rule("allow", "*", path="**/.env")], "read_file", ".env", "ask"),
    ([Rule("allow", "bash", command="git status")], "bash", "git status -s", "allow"),
    ([Rule("allow", "bash", command="git status")], "bash", "git stash", "ask"),
    ([Rule("allow", "bash", command="git")], "bash", "git add . && git commit", "allow"),
    ([Rule("allow", "bash", command="git")], "bash", "git add . && rm x", "ask"),
    ([Rule("allow", "bash", command="git")], "bash", "git add $(rm x)", "ask"),
    ([Rule("allow", "bash", command="git")], "bash", "LD_PRELOAD=x git add .", "ask"),
    ([Rule("allow", "bash", command="git")], "bash", "./git add .", "ask"),
    ([Rule("allow", "bash", command="git")], "bash", "gitk", "ask"),
    ([Rule("allow", "bash", command="git")], "bash", "git add /etc/x", "ask"),
    ([Rule("allow", "bash", command="git")], "bash", "git add (", "ask"),
    ([Rule("deny", "bash", command="git push")], "bash", "git push --force", "deny"),
    ([Rule("deny", "bash", command="git push")], "bash", "ls; A=1 /usr/bin/git push", "deny"),
    ([Rule("deny", "bash", command="git push")], "bash", "bash -c 'sudo git push'", "deny"),
    ([Rule("deny", "bash", command="git push")], "bash", "echo $(git push)", "deny"),
    ([Rule("deny", "bash", command="git push")], "bash", "git push (", "deny"),
    ([Rule("deny", "bash", command="git push")], "bash", "git pull", "ask"),
    ([Rule("ask", "bash", command="rm"), Rule("allow", "bash")], "bash", "rm x", "ask"),
    ([Rule("ask", "bash", command="rm"), Rule("allow", "bash")], "bash", "ls", "allow"),
    ([Rule("allow", "bash", path="src/**", command="rm")], "bash", "rm src/a.py", "allow"),
    ([Rule("allow", "bash", path="src/**", command="rm")], "bash", "rm b.py", "ask"),
    ([Rule("deny", "todo")], "todo", "", "deny"),
    ([Rule("deny", "*", path="src")], "todo", "", "allow"),
    ([Rule("deny", "*", command="rm")], "read_file", "src/a.py", "allow"),
]


@pytest.mark.parametrize("number", range(len(RULES)))
def test_the_users_rules(root: Path, number: int) -> None:
    rules, tool, given, verdict = RULES[number]
    assert (
        decide(call(root, tool, given), Policy("default", (root,), {}, rules=tuple(rules))).verdict == verdict
    )


def test_a_deny_rule_wins_over_every_mode_and_grant(root: Path) -> None:
    rules = (Rule("deny", "write_file"), Rule("allow", "*"))
    for mode in (DEFAULT, EDITS, PLAN, BYPASS):
        policy = Policy(mode, (root,), GRANTED, rules=rules, dangerously_allow_outside=True)
        decision = decide(call(root, "write_file", "src/a.py"), policy)
        assert (decision.verdict, "rule of the user's settings" in decision.reason) == ("deny", True)


def test_an_allow_rule_does_not_leave_plan_mode(root: Path) -> None:
    policy = Policy("plan", (root,), {}, rules=(Rule("allow", "*"),))
    assert decide(call(root, "write_file", "src/a.py"), policy).verdict == "deny"


def test_rules_come_from_the_settings() -> None:
    setting = RuleSetting(effect="deny", tool="bash", command="rm")
    assert rules_of([setting]) == (Rule("deny", "bash", None, "rm"),)


@pytest.mark.parametrize(
    ("command", "scope"),
    [
        ("git commit -m x", "git commit"),
        ("git add . && git commit -m x; git add y", "git add && git commit"),
        ("python -c 1", "=python -c 1"),
        ("$X", "=$X"),
        ("ls (", "=ls ("),
        ("X=1", "=X=1"),
    ],
)
def test_an_always_for_bash_covers_what_the_settings_say(root: Path, command: str, scope: str) -> None:
    judged = call(root, "bash", command)
    assert grant_scope(judged, Policy("default", (root,))) == ""
    narrow = Policy("default", (root,), bash_grants="prefix")
    assert grant_scope(judged, narrow) == scope
    granted = Policy("default", (root,), {f"bash:{scope}": True}, bash_grants="prefix")
    asked = judged.shell is None or bool(judged.shell.unreadable)
    assert decide(judged, granted).verdict == ("ask" if asked else "allow")
    rejected = Policy("default", (root,), {f"bash:{scope}": False}, bash_grants="prefix")
    assert decide(judged, rejected).verdict == "deny"


def test_an_always_for_another_tool_covers_the_tool(root: Path) -> None:
    for tool, given in (("write_file", "src/a.py"), ("agent", "x"), ("todo", "")):
        judged = call(root, tool, given)
        if tool == "agent":
            judged = Call("agent", "execute", False, ())
        assert grant_scope(judged, Policy("default", (root,), bash_grants="prefix")) == ""


def test_a_path_that_cannot_be_judged_asks(root: Path) -> None:
    class Odd(Plain):
        def accesses(self, args: CommandInput, cwd: Path) -> list[Any]:
            raise ValueError("a name that no file can have")

    odd = cast("Tool[ToolInput]", Odd("odd", "read", read_only=True))
    assert decide(call_of(odd, CommandInput(), root), Policy("default", (root,))).verdict == "ask"


def test_the_four_options_name_what_an_always_covers() -> None:
    options = permission_options("")
    kinds = ["allow_once", "allow_always", "reject_once", "reject_always"]
    assert [option["optionId"] for option in options] == kinds
    assert [option["kind"] for option in options] == kinds
    assert len({option["name"] for option in options}) == 4
    assert "git commit" in permission_options("git commit")[1]["name"]
    assert "exactly this command" in permission_options("=python -c 1")[1]["name"]


ANSWERS: list[tuple[Any, str]] = [
    *[
        ({"outcome": {"outcome": "selected", "optionId": kind}}, kind)
        for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
    ],
    ({"outcome": {"outcome": "selected"}}, "reject_once"),
    ({"outcome": {"outcome": "selected", "optionId": "yes"}}, "reject_once"),
    ({"outcome": {"outcome": "selected", "optionId": None}}, "reject_once"),
    ({"outcome": {"outcome": "selected", "optionId": ["allow_once"]}}, "reject_once"),
    ({"outcome": {"outcome": "selected", "option_id": "allow_once"}}, "reject_once"),
    ({"outcome": "selected", "optionId": "allow_once"}, "reject_once"),
    ({"outcome": {"outcome": "cancelled"}}, "reject_once"),
    ({"outcome": {"outcome": "cancelled", "optionId": "allow_once"}}, "reject_once"),
    ({"outcome": "cancelled"}, "reject_once"),
    *[
        (answer, kind)
        for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
        for answer in (
            {"outcome": "allowed", "option_id": kind},
            {"outcome": {"outcome": "allowed", "option_id": kind}},
        )
    ],
    ({"outcome": "allowed"}, "allow_once"),
    ({"outcome": {"outcome": "allowed"}}, "allow_once"),
    ({"outcome": "allowed", "option_id": None}, "allow_once"),
    ({"outcome": "allowed", "option_id": "sure"}, "reject_once"),
    ({"outcome": "allowed", "option_id": 5}, "reject_once"),
    ({"outcome": "denied"}, "reject_once"),
    ({"outcome": {"outcome": "denied"}}, "reject_once"),
    ({"outcome": "denied", "option_id": "allow_always"}, "reject_once"),
    ({"outcome": {}}, "reject_once"),
    ({"outcome": {"outcome": {"outcome": "allowed"}}}, "reject_once"),
    ({"outcome": None}, "reject_once"),
    ({"outcome": True}, "reject_once"),
    ({}, "reject_once"),
    (None, "reject_once"),
    (True, "reject_once"),
    ("allow_once", "reject_once"),
    ([], "reject_once"),
    ([{"outcome": "allowed"}], "reject_once"),
]


@pytest.mark.parametrize(("result", "answer"), ANSWERS)
def test_only_a_clear_yes_is_a_yes(result: Any, answer: str) -> None:
    assert parse_outcome(result, error=False) == answer
    assert parse_outcome(result, error=True) == "reject_once"
