"""PROTOCOL.md and the README's section for editors say what the code does, or this fails."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, cast

import pytest

from shared import catalog, errors
from shared.commands import COMMANDS
from supervisor import options
from supervisor.methods import Methods
from tests.e2e.client import start_agent
from tests.e2e.wire import STANDARD_NAMES, UPDATES
from worker.tools import load_tools

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "PROTOCOL.md").read_text()
EDITORS = (ROOT / "README.md").read_text().split("## Editors\n")[1].split("\n## ")[0]


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    text = DOCUMENT.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(cell: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", cell)


def test_every_method_stands_there_under_both_its_names() -> None:
    table = Methods(cast("Any", None), catalog.load(), bare=False).table
    told = {name for reference, standard, _ in rows("Methods") for name in names(reference + standard)}
    assert told == {*table, "initialize", "$/cancel_request"}
    for reference, standard, _ in rows("Methods"):
        for other in names(reference):
            (standard_name,) = names(standard)
            assert STANDARD_NAMES.get(other, other) == standard_name
            if other in table:
                assert table[other] == table[standard_name]


def test_every_kind_of_update_stands_there_and_no_other_is_sent() -> None:
    told = [names(kind)[0] for _, kind, _ in rows("Updates")]
    assert len(told) == len(set(told))
    assert set(told) == UPDATES
    sent: set[str] = set()
    for source in (
        path for folder in ("shared", "supervisor", "worker") for path in (ROOT / folder).rglob("*.py")
    ):
        text = source.read_text()
        sent.update(re.findall(r'"sessionUpdate": "(\w+)"', text), re.findall(r'\bchunks?\(\s*"(\w+)"', text))
    assert sent == UPDATES


def test_every_option_and_value_stands_there() -> None:
    told = {names(option)[0]: names(values) for option, values in rows("Options")}
    assert list(told) == list(options.OPTION_IDS)
    assert told["mode"] == list(options.MODES)
    assert told["thinking"] == list(options.THINKING)
    assert all(f"`/{command}`" in DOCUMENT for command in COMMANDS)


def test_every_tool_stands_there_with_its_kind() -> None:
    told = {tool: names(kind)[0] for tools, kind, _ in rows("Tools") for tool in names(tools)}
    assert told == {name: tool.kind for name, tool in load_tools().items()}


def test_every_error_code_stands_there() -> None:
    codes = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code, _ in rows("Errors")} == codes


def blocks(language: str) -> list[str]:
    """The README's snippets for editors in a language."""
    return re.findall(rf"```{language}\n(.*?)```", EDITORS, re.DOTALL)


@pytest.mark.anyio
async def test_each_editors_configuration_starts_the_agent(tmp_path: Path) -> None:
    starts: list[list[str]] = []
    for snippet in blocks("json"):
        (server,) = json.loads(snippet)["agent_servers"].values()
        starts.append([server["command"], *server["args"]])
    for snippet in (*blocks("lua"), *blocks("elisp")):
        # How each of them writes a command and its arguments.
        assert re.search(
            r'\{ "iac-code", "acp" \}|command = "iac-code", args = \{ "acp" \}|'
            r":command \"iac-code\" :command-params '\(\"acp\"\)",
            snippet,
        ), snippet
        assert snippet.count("(") == snippet.count(")")
        assert snippet.count("{") == snippet.count("}")
        starts.append(["iac-code", "acp"])
    starts.extend(shlex.split(command) for command in re.findall(r"'(iac-code [^':]*)'", EDITORS))
    for editor in ("Zed", "JetBrains", "CodeCompanion", "avante", "agent-shell", "acpx", "Toad"):
        assert editor in EDITORS
    assert len(starts) == 7
    assert {tuple(start) for start in starts} == {("iac-code", "acp")}
    async with start_agent(tmp_path) as client:  # which is that command
        assert (await client.initialize())["agentInfo"]["name"] == "iac-code"
