"""`iac-code doctor`: what it tells of a sound installation, and of each thing that is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from supervisor.cli import checks, doctor
from supervisor.cli.checks import Finding, findings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    folder.mkdir(mode=0o700)
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "IAC_CODE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IAC_CODE_CONFIG_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def without_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a worker's code takes a second."""

    def none() -> Iterator[Finding]:
        yield from ()

    monkeypatch.setattr(checks, "_worker", none)


def of(topic: str) -> list[tuple[str, str]]:
    return [(finding.state, finding.text) for finding in findings() if finding.topic == topic]


def test_a_sound_installation_is_ok(config: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "supervisor.cli.main", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "ANTHROPIC_API_KEY": "sk-s3cret"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout
    assert str(config) in lines
    assert "found in ANTHROPIC_API_KEY" in lines
    assert "s3cret" not in lines
    assert "code is loaded" in lines
    assert "/rg" in lines
    assert "Landlock" in lines
    assert "broken" not in lines


@pytest.mark.usefixtures("without_worker")
def test_settings_that_cannot_be_used_are_broken(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert of("settings") == [("ok", "none, all as it comes")]
    (config / "settings.json").write_text(json.dumps({"sandbox": {"writable": ["relative"]}}))
    ((state, text),) = of("settings")
    assert state == "broken"
    assert "sandbox.writable" in text
    assert doctor.run() == 1
    assert "broken" in capsys.readouterr().out
    (config / "settings.json").write_text(json.dumps({"sandbox": {"enabled": False}, "rules": []}))
    assert of("settings") == [("ok", f"{config / 'settings.json'}: rules, sandbox")]
    assert doctor.run() == 0


@pytest.mark.usefixtures("without_worker")
def test_credentials_are_told_by_their_place_alone(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of("credentials")[0][0] == "note"
    login = config / "credentials.json"
    login.write_text('{"api_key": "sk-s3cret"}')
    login.chmod(0o644)
    assert of("credentials")[0][0] == "broken"
    login.chmod(0o600)
    assert of("credentials") == [("ok", f"found in {login}")]
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "s3cret")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://u:s3cret@example.com/s3cret")
    told = of("credentials")
    assert [state for state, _ in told] == ["ok", "ok"]
    assert "s3cret" not in str(told)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "s3cret with blanks")
    assert of("credentials")[0][0] == "broken"
    assert "s3cret" not in str(of("credentials"))


@pytest.mark.usefixtures("without_worker")
def test_a_config_dir_that_others_can_read_is_noted(config: Path) -> None:
    config.chmod(0o755)
    (config / "settings.json").write_text("{}")
    (config / "settings.json").chmod(0o664)
    told = [text for state, text in of("config dir") if state == "note"]
    assert [text.partition(": ")[2] for text in told] == [
        f"chmod 700 {config}",
        f"chmod 600 {config / 'settings.json'}",
    ]


@pytest.mark.usefixtures("without_worker")
@pytest.mark.parametrize("kind", ["a file", "below a file"])
def test_a_config_dir_that_is_none_is_broken(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("IAC_CODE_CONFIG_DIR", str(tmp_path / ("file" if kind == "a file" else "file/below")))
    assert of("config dir")[0][0] == "broken"


@pytest.mark.usefixtures("config")
def test_workers_that_cannot_be_started_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'ModuleNotFoundError: No module named zmq' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    assert "No module named zmq" in of("workers")[-1][1]
    assert of("workers")[-1][0] == "broken"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    assert of("workers")[-1][0] == "broken"


@pytest.mark.parametrize(
    ("more", "state", "text"),
    [
        ({}, "ok", "ABI 7, tried"),
        ({"holds": False}, "broken", "could write"),
        ({"active": False, "enabled": False}, "note", "off by your settings"),
        (
            {"active": False, "abi": 0, "shortcomings": ["there is no sandbox"]},
            "note",
            "no Landlock; there is no",
        ),
        ({"network": False}, "ok", "no TCP"),
    ],
)
def test_what_protection_is_active_is_told(more: dict[str, object], state: str, text: str) -> None:
    told = {
        "abi": 7,
        "enabled": True,
        "active": True,
        "holds": True,
        "network": True,
        "shortcomings": [],
        "writable": ["/dev/null"],
    }
    found = list(checks._sandbox(told | more))
    assert any(finding.state == state and text in finding.text for finding in found), found
