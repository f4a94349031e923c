"""MCP servers of sessions, end to end: each session its own, and none of them outlives it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.e2e.rig import rig, until

if TYPE_CHECKING:
    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

RAW = Path(__file__).parent.parent / "worker" / "mcp" / "raw_server.py"


def server(mode: str, log: Path | None = None, *, name: str = "raw", **env: str) -> dict[str, Any]:
    """A server as ACP has it."""
    args = [str(RAW), mode, *([str(log)] if log else [])]
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return {"name": name, "command": sys.executable, "args": args, "env": variables}


async def new(r: Rig, *servers: dict[str, Any]) -> str:
    created = await r.client.call("session/new", {"cwd": str(r.work), "mcpServers": list(servers)})
    return str(created["sessionId"])


def offered(r: Rig) -> list[str]:
    """Names of the MCP tools in the newest request to the model."""
    return [tool["name"] for tool in r.double.requests[-1].body["tools"] if tool["name"].startswith("mcp__")]


def asked_user(r: Rig) -> list[dict[str, Any]]:
    """The permission requests so far."""
    return [m for m in r.client.messages if m.get("method") == "session/request_permission"]


def running(log: Path) -> list[int]:
    """Processes that a stubborn server noted and that are still there."""
    noted = [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("pid")]
    return [pid for pid in noted if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


async def test_sessions_with_different_servers_never_see_each_others_tools(r: Rig, tmp_path: Path) -> None:
    a = await new(r, server("good", name="one", TOKEN="s3cret-of-one"))
    b = await new(r, server("pid", name="two"))
    c = await r.client.new_session(r.work)
    # The first turn already has the tools, or waits for the one that it calls.
    await r.client.prompt(a, '@tool mcp__one__do {"x": 1}\n@text done')
    assert "done {'x': 1}" in r.asked()
    assert offered(r) == ["mcp__one__do"]
    await r.client.prompt(b, "@tool mcp__one__do {}\n@tool mcp__two__do {}\n@text done")
    assert "There is no tool 'mcp__one__do'" in r.asked()
    assert offered(r) == ["mcp__two__do"]
    await r.client.prompt(c, "@text done")
    assert offered(r) == []
    assert sorted(r.statuses(b).values()) == ["completed", "failed"]
    (call,) = [u for u in r.client.updates(a, "tool_call") if u["kind"] == "other"]
    assert call["title"] == 'one: do {"x": 1}'
    for path in (tmp_path / "home").rglob("*"):
        assert not path.is_file() or b"s3cret-of-one" not in path.read_bytes(), path


async def test_a_tool_is_asked_for_unless_its_server_marks_it_read_only(r: Rig) -> None:
    sdk = {"name": "sdk", "command": sys.executable, "env": []}
    sdk["args"] = [str(RAW.with_name("sdk_server.py")), "stdio"]
    r.client.answer_permission = "reject_once"
    session = await new(r, sdk)
    await r.client.prompt(session, '@tool mcp__sdk__echo {"text": "hi"}\n@text done')
    assert "echo: hi" in r.asked()
    assert asked_user(r) == []
    await r.client.prompt(session, '@tool mcp__sdk__write {"text": "hi"}\n@text done')
    (asked,) = asked_user(r)
    assert asked["params"]["toolCall"]["rawInput"] == {"text": "hi"}
    assert "Permission denied." in r.asked()
    assert "Say please to echo." in json.dumps(r.double.requests[-1].body["system"])
    commands = r.client.updates(session, "available_commands_update")[-1]["availableCommands"]
    assert "mcp__sdk__review" in [command["name"] for command in commands]
    await r.client.prompt(session, "/mcp__sdk__review main.tf")
    assert "Review main.tf in a short style." in r.asked()


async def test_a_killed_worker_gets_its_servers_back_and_the_turn_goes_on(r: Rig, tmp_path: Path) -> None:
    log = tmp_path / "log"
    session = await new(r, server("hangs", log))
    id_ = await r.client.begin_prompt(session, '@tool mcp__raw__do {"n": 1}\n@text went-on')
    await until(lambda: log.exists() and "call do" in log.read_text())
    r.kill_worker(session)
    await until(lambda: log.read_text().count("call do") == 2)  # read-only, so it may run again
    await r.client.notify("session/cancel", {"sessionId": session})
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
    assert log.read_text().count("started") == 2
    assert set(r.statuses(session).values()) == {"failed"}
    id_ = await r.client.begin_prompt(session, "@text after")
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    assert offered(r) == ["mcp__raw__do"]


async def test_a_server_that_never_answers_does_not_hold_up_a_turn_for_long(tmp_path: Path) -> None:
    async with rig(tmp_path, settings={"mcp_start_within": 4}) as r:
        session = await new(r, server("silent", name="mute"), server("exits", name="dying"))
        answer = await r.client.prompt(session, "@text first")
        assert answer.get("result", answer)["stopReason"] == "end_turn"
        assert r.client.text(session).count("MCP server 'dying'") == 1
        await r.client.prompt(session, "/status")
        assert "MCP server 'mute': starting" in r.client.text(session)
        await until(lambda: "did not start within 4 s" in _log(r))
        await r.client.prompt(session, "@text second")
        assert r.client.text(session).count("MCP server 'mute' did not start within 4 s") == 1
        await r.client.prompt(session, "@text third")
        assert r.client.text(session).count("did not start") == 1


def _log(r: Rig) -> str:
    return (r.home / "config" / "logs" / "iac-code.jsonl").read_text()


async def test_no_process_of_a_stubborn_server_outlives_its_session(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        logs = [tmp_path / name for name in ("closed", "killed", "ended")]
        sessions = [await new(r, server("stubborn", log)) for log in logs]
        for session, log in zip(sessions, logs, strict=True):
            await r.client.prompt(session, "@tool mcp__raw__do {}\n@text up")
            assert len(running(log)) == 3
        await r.client.call("session/close", {"sessionId": sessions[0]})
        await until(lambda: not running(logs[0]))
        before = set(running(logs[1]))
        r.kill_worker(sessions[1])
        await until(lambda: not before & set(running(logs[1])))
        assert len(running(logs[2])) == 3
    await until(lambda: not any(running(log) for log in logs))


async def test_no_process_of_a_stubborn_server_outlives_a_killed_front(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with rig(tmp_path) as r:
        session = await new(r, server("stubborn", log))
        await r.client.prompt(session, "@tool mcp__raw__do {}\n@text up")
        assert len(running(log)) == 3
        os.killpg(r.client.process.pid, signal.SIGKILL)
        await until(lambda: not running(log))


async def test_servers_of_the_settings_serve_every_session_and_a_projects_file_none(tmp_path: Path) -> None:
    log, trap = tmp_path / "log", tmp_path / "trap"
    of_user = {"mine": {key: v for key, v in server("good", log).items() if key != "name"}}
    of_project = json.dumps(
        {"mcpServers": {"trap": server("good", trap)}, "mcp_servers": [server("good", trap)]}
    )
    work = tmp_path / "work"
    for name in (".mcp.json", ".iac-code/settings.json", ".vscode/mcp.json", ".claude/settings.json"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(of_project)
    async with rig(tmp_path, settings={"mcp_servers": of_user}) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@tool mcp__mine__do {}\n@text done")
        assert offered(r) == ["mcp__mine__do"]
    assert log.exists()
    assert not trap.exists()


async def test_a_bare_prompt_names_the_servers_that_are_missing_and_a_resume_brings_them(
    tmp_path: Path,
) -> None:
    settings = {"mcp_servers": [server("good", name="mine")]}
    async with rig(tmp_path, settings=settings) as r:
        session = await new(r, server("good", name="editors"), server("good", name="mine"))
        await r.client.prompt(session, "@tool mcp__editors__do {}\n@text done")
    async with rig(tmp_path, settings=settings) as r:
        await r.client.prompt(session, "@text first")
        assert r.client.text(session).count("not there") == 1
        assert "not loaded: editors." in r.client.text(session)
        await r.client.prompt(session, "@tool mcp__mine__do {}\n@text second")
        assert offered(r) == ["mcp__mine__do"]
        assert r.client.text(session).count("not there") == 1
        pid = r.worker_pid(session)
        place = {"sessionId": session, "cwd": str(r.work)}
        await r.client.call("session/resume", {**place, "mcpServers": [server("good", name="editors")]})
        await r.client.prompt(session, "@tool mcp__editors__do {}\n@text third")
        assert offered(r) == ["mcp__editors__do", "mcp__mine__do"]
        await r.client.call("session/load", {**place, "mcpServers": []})
        await r.client.prompt(session, "@text fourth")
        assert offered(r) == ["mcp__editors__do", "mcp__mine__do"]
        assert r.worker_pid(session) == pid
        fork = await r.client.call("session/fork", {**place, "mcpServers": [server("pid", name="forks")]})
        await r.client.prompt(fork["sessionId"], "@tool mcp__forks__do {}\n@text fifth")
        assert offered(r) == ["mcp__forks__do", "mcp__mine__do"]


async def test_hooks_deny_and_see_and_end(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hooks = {
        "before_tool": [{"command": "echo no bash today >&2; exit 2", "tool": "bash"}],
        "after_tool": [{"command": "echo looked after >&2; exit 2", "tool": "list_*"}],
        "turn_end": [{"command": f"cat >> {seen}; echo >> {seen}"}],
    }
    async with rig(tmp_path, settings={"hooks": hooks}) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, '@tool bash {"command": "touch ran"}\n@tool list_files {}\n@text done')
        assert not (r.work / "ran").exists()
        assert asked_user(r) == []
        assert "Permission denied. no bash today" in r.asked()
        assert "looked after" in r.asked()
        id_ = await r.client.begin_prompt(session, "@stall 60")
        await until(lambda: len(r.double.requests) == 3)
        await r.client.notify("session/cancel", {"sessionId": session})
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
    ended = [json.loads(line)["stop_reason"] for line in seen.read_text().splitlines()]
    assert ended == ["end_turn", "cancelled"]


async def test_the_hook_of_a_turns_end_runs_when_nothing_of_a_dead_worker_runs(tmp_path: Path) -> None:
    pid, seen = tmp_path / "work" / "pid", tmp_path / "seen"
    hook = f"kill -0 $(cat {pid}) 2> /dev/null && echo runs >> {seen} || echo gone >> {seen}"
    async with rig(tmp_path, settings={"hooks": {"turn_end": [{"command": hook}]}}) as r:
        session = await r.client.new_session(r.work)
        command = "trap '' TERM; echo $$ > new; mv new pid; sleep 60; true"
        id_ = await r.client.begin_prompt(session, f"@tool bash {json.dumps({'command': command})}\n@text on")
        await until(pid.exists)
        r.kill_worker(session)
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
        assert "on" in r.client.text(session)
    assert seen.read_text() == "gone\n"


async def test_skills_are_listed_read_and_offered_as_commands(tmp_path: Path) -> None:
    config = tmp_path / "home" / "config"
    for folder, name in ((config / "skills", "mine"), (tmp_path / "work" / ".claude" / "skills", "theirs")):
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(f"---\ndescription: for {name}\n---\nDo it the {name} way.\n")
    path = config / "skills" / "mine" / "SKILL.md"
    async with rig(tmp_path) as r:
        session = await r.client.new_session(r.work)
        # Offered before the first prompt.
        await r.client.wait_until(
            lambda: any(
                {"mine", "theirs"} <= {command["name"] for command in update["availableCommands"]}
                for update in r.client.updates(session, "available_commands_update")
            )
        )
        await r.client.prompt(session, f'@tool read_file {{"path": "{path}"}}\n@text done')
        assert "Do it the mine way." in r.asked()
        assert asked_user(r) == []
        system = json.dumps(r.double.requests[-1].body["system"])
        assert "mine: for mine" in system
        assert "theirs (of the project): for theirs" in system
        await r.client.prompt(session, "/theirs on main.tf")
        assert "Do it the theirs way." in r.asked()
        assert "on main.tf" in r.asked()
        await r.client.prompt(session, "/nothing")
        assert "There is no command /nothing" in r.client.text(session)
