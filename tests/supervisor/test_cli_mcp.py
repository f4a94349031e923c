"""`iac-code mcp`: what is configured, whether it starts, what it offers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.supervisor.test_cli import iac_code

RAW = Path(__file__).parents[1] / "worker" / "mcp" / "raw_server.py"


def configure(config: Path, **servers: dict[str, Any]) -> None:
    (config / "settings.json").write_text(json.dumps({"mcp_servers": servers, "mcp_start_within": 20}))


def raw(mode: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(RAW), mode], "env": {"TOKEN": "s3cret-token"}}


def test_list_shows_what_is_configured_and_starts_nothing(tmp_path: Path) -> None:
    web = {"url": "https://user:s3cret@x.example:8443/mcp?key=s3cret", "headers": {"A": "s3cret"}}
    configure(tmp_path, local={**raw("good"), "command": "/nowhere"}, web=web)
    done = iac_code("mcp", "list", config=tmp_path)
    assert done.returncode == 0
    assert "local  stdio  /nowhere" in done.stdout
    assert "web    http   https://x.example:8443/mcp" in done.stdout
    assert "s3cret" not in done.stdout
    listed = [
        json.loads(line) for line in iac_code("mcp", "list", "--json", config=tmp_path).stdout.splitlines()
    ]
    assert [server["name"] for server in listed] == ["local", "web"]


def test_test_starts_each_and_says_how_long_it_took_and_what_it_offers(tmp_path: Path) -> None:
    configure(tmp_path, good=raw("good"), dying=raw("exits"), gone={"command": "/nowhere"})
    done = iac_code("mcp", "test", "--json", config=tmp_path)
    assert done.returncode == 1
    assert done.stderr == ""
    reports = {report["name"]: report for report in map(json.loads, done.stdout.splitlines())}
    assert reports["good"]["ready"]
    assert 0 < reports["good"]["seconds"] < 20
    assert [tool["name"] for tool in reports["good"]["tools"]] == ["mcp__good__do"]
    assert reports["dying"]["reason"] == "ended with code 3: no config found"
    assert "No such file" in reports["gone"]["reason"]

    told = iac_code("mcp", "test", "good", config=tmp_path)
    assert told.returncode == 0
    assert told.stdout.startswith("✓ good (")
    assert "mcp__good__do (read-only)" in told.stdout


def test_none_configured_and_an_unknown_name_are_told(tmp_path: Path) -> None:
    for action in ("list", "test"):
        done = iac_code("mcp", action, config=tmp_path)
        assert (done.returncode, done.stdout.startswith("No MCP server is configured")) == (0, True)
    configure(tmp_path, good=raw("good"))
    done = iac_code("mcp", "test", "nope", config=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "iac-code: There is no MCP server nope. Configured: good.\n"
