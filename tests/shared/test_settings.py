"""Settings are what the file says, or an error that ends the start: no rule is ever dropped in silence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from shared.settings import Settings, SettingsError, load

if TYPE_CHECKING:
    from pathlib import Path


def stored(folder: Path, content: Any) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "settings.json").write_bytes(data)
    return folder


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path) == load(tmp_path / "missing") == Settings()
    defaults = Settings()
    assert (defaults.unresponsive_after, defaults.kill_after_in_turn, defaults.kill_after_idle) == (3, 15, 5)
    assert (defaults.ready_within, defaults.cancel_within, defaults.recover) == (10, 2, "continue")
    assert defaults.memory_limit == 2 * 2**30
    assert not defaults.dangerously_allow_outside


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"kill_after_idle": 2}, "kill_after_idle", 2.0),
        ({"recover": "report"}, "recover", "report"),
        ({"bash_grants": "prefix"}, "bash_grants", "prefix"),
        ({"withhold": ["GITHUB_TOKEN"]}, "withhold", ("GITHUB_TOKEN",)),
        ({"models": [{"id": "mine"}]}, "models", ({"id": "mine"},)),
        ({}, "model", None),
    ],
)
def test_what_the_file_says_holds(tmp_path: Path, given: Any, name: str, value: Any) -> None:
    assert getattr(load(stored(tmp_path, given)), name) == value


def test_rules_are_read_in_order(tmp_path: Path) -> None:
    rules = [
        {"effect": "deny", "tool": "bash", "command": "rm"},
        {"effect": "allow", "tool": "read_file", "path": "/etc/**"},
    ]
    found = load(stored(tmp_path, {"rules": rules})).rules
    assert [rule.model_dump(exclude_none=True) for rule in found] == rules


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "the file"),
        (b"{", "the file"),
        (b"\xff\xfe", "the file"),
        (b"null", "the file"),
        ([], "the file"),
        ({"kill_after_idl": 5}, "kill_after_idl"),
        ({"kill_after_idle": 0}, "kill_after_idle"),
        ({"kill_after_idle": "soon"}, "kill_after_idle"),
        ({"memory_limit": -1}, "memory_limit"),
        ({"recover": "maybe"}, "recover"),
        ({"rules": [{"effect": "forbid", "tool": "bash"}]}, "rules.0.effect"),
        ({"rules": [{"effect": "deny"}]}, "rules.0.tool"),
        ({"rules": [{"effect": "deny", "tool": "bash", "pth": "/x"}]}, "rules.0.pth"),
        ({"withhold": "GITHUB_TOKEN"}, "withhold"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(tmp_path: Path, content: Any, named: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(stored(tmp_path, content))
    told = str(raised.value)
    assert str(tmp_path / "settings.json") in told
    assert f": {named}: " in told
    assert "Correct or remove it." in told


def test_a_file_that_cannot_be_read_is_no_missing_file(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path)
