"""Whether credentials are missing is told from the environment, the settings and the login file alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from shared.credentials import Credentials, save_login
from supervisor.auth import login_needed

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, **values: object) -> None:
    """Store settings."""
    (folder / "settings.json").write_text(json.dumps(values))


def test_without_a_choice_nothing_is_missing(tmp_path: Path) -> None:
    assert not login_needed({}, tmp_path)
    assert not login_needed({"IAC_CODE_MODEL": " "}, tmp_path / "none")


@pytest.mark.parametrize(
    ("model", "needed"),
    [
        ("claude-opus-5-5", True),
        ("my-own", True),
        ("offline", False),
        ("bedrock/x", False),
        ("vertex/y", False),
    ],
)
def test_a_chosen_model_needs_its_credentials(tmp_path: Path, model: str, needed: bool) -> None:
    assert login_needed({"IAC_CODE_MODEL": model}, tmp_path) == needed
    settings(tmp_path, model=model)
    assert login_needed({}, tmp_path) == needed
    assert not login_needed({"ANTHROPIC_API_KEY": "sk"}, tmp_path)
    assert not login_needed({"ANTHROPIC_AUTH_TOKEN": "t"}, tmp_path)
    save_login(tmp_path, Credentials(api_key="sk"))
    assert not login_needed({}, tmp_path)


def test_a_model_that_the_settings_add_has_the_provider_that_they_say(tmp_path: Path) -> None:
    settings(tmp_path, model="mine", models=[{"id": "other"}, {"id": "mine", "provider": "bedrock"}])
    assert not login_needed({}, tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"model": 7, "models": [1]}', '{"models": {}}'])
def test_settings_that_cannot_be_read_are_not_told_here(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_text(text)
    assert not login_needed({}, tmp_path)
    assert login_needed({"IAC_CODE_MODEL": "claude-opus-5-5"}, tmp_path)
