"""The folders are where they are said to be, and private."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shared import paths

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path that is short enough for sockets below it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="p"))
    yield folder
    shutil.rmtree(folder)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_config_folder_is_named_by_the_environment_or_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("IAC_CODE_CONFIG_DIR", raising=False)
    assert paths.config_dir() == tmp_path / ".iac-code"
    monkeypatch.setenv("IAC_CODE_CONFIG_DIR", "~/elsewhere")
    assert paths.sessions_dir() == tmp_path / "elsewhere" / "sessions"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IAC_CODE_CONFIG_DIR", "here")
    assert paths.logs_dir() == tmp_path / "here" / "logs"


def test_folders_are_made_private_from_the_first_missing_one_on(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    paths.make_private(tmp_path / "a" / "b")
    assert [mode(tmp_path), mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o755, 0o700, 0o700]
    paths.make_private(tmp_path / "a" / "b")


def test_sockets_are_in_the_users_runtime_folder(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    assert paths.runtime_root() == short / "iac-code"
    assert mode(short / "iac-code") == 0o700


def test_a_wrong_mode_is_put_right(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    (short / "iac-code").mkdir()
    (short / "iac-code").chmod(0o777)
    assert mode(paths.runtime_root()) == 0o700


@pytest.mark.parametrize("name", ["", "relative", "/nowhere/at/all", "long"])
def test_without_a_usable_runtime_folder_it_is_one_per_user(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 60)
    folder.mkdir()
    (tmp_path / "relative").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder) if name == "long" else name)
    root = paths.runtime_root()
    assert root == Path(f"/tmp/iac-code-{os.getuid()}")
    assert mode(root) == 0o700


@pytest.mark.parametrize("kind", ["symlink", "dangling", "file"])
def test_what_is_no_folder_of_ours_is_refused_with_a_sentence(
    kind: str, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    root = short / "iac-code"
    if kind == "file":
        root.touch()
    else:
        root.symlink_to(short if kind == "symlink" else short / "nothing")
    with pytest.raises(RuntimeError, match=r"is not a folder.*remove it"):
        paths.runtime_root()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    (short / "iac-code").mkdir()
    os.chown(short / "iac-code", 12345, 12345)
    with pytest.raises(RuntimeError, match="belongs to user id 12345"):
        paths.runtime_root()
