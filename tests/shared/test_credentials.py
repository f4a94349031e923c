"""Where credentials are found, and that no message shows one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from shared.credentials import (
    LOGIN_FILE,
    Credentials,
    CredentialsError,
    find_credentials,
    has_credentials,
    save_login,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_login_is_found_again_and_is_the_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    path = save_login(folder, Credentials(auth_token="tok-1"))
    save_login(folder, Credentials(api_key="key-2"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert find_credentials({}, folder) == Credentials(api_key="key-2")
    assert [entry.name for entry in folder.iterdir()] == [LOGIN_FILE]


def test_the_environment_comes_before_the_login(tmp_path: Path) -> None:
    save_login(tmp_path, Credentials(api_key="stored"))
    assert find_credentials({"ANTHROPIC_AUTH_TOKEN": "t"}, tmp_path) == Credentials(auth_token="t")
    both = {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": " k\n"}
    assert find_credentials(both, tmp_path) == Credentials(api_key="k")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_login_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    save_login(tmp_path, Credentials(api_key="s3cret")).chmod(mode)
    assert not has_credentials({}, tmp_path)
    with pytest.raises(CredentialsError, match="chmod 600") as caught:
        find_credentials({}, tmp_path)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"api_key": 5}', b'{"api_key": " "}', b"\xff\x00"])
def test_a_broken_login_file_is_told_and_ends_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / LOGIN_FILE
    path.write_bytes(content)
    path.chmod(0o600)
    assert not has_credentials({}, tmp_path)
    with pytest.raises(CredentialsError, match="iac-code login"):
        find_credentials({}, tmp_path)


def test_a_fifo_or_a_folder_in_its_place_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOGIN_FILE, 0o600)
    assert not has_credentials({}, tmp_path)
    (tmp_path / "other" / LOGIN_FILE).mkdir(parents=True)
    assert not has_credentials({}, tmp_path / "other")


@pytest.mark.parametrize("value", ["s3cret\nx", "s3cret x", "s3créet", "s3cret\x00"])
def test_a_credential_that_no_header_takes_is_refused_without_quoting_it(tmp_path: Path, value: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        find_credentials({"ANTHROPIC_API_KEY": value}, tmp_path)
    assert "s3cr" not in str(caught.value)
    assert "ANTHROPIC_API_KEY" in str(caught.value)


def test_credentials_do_not_show_in_a_repr() -> None:
    assert "s3cret" not in repr(Credentials(api_key="s3cret"))


def test_a_login_that_cannot_be_stored_leaves_no_key_behind(tmp_path: Path) -> None:
    (tmp_path / LOGIN_FILE).mkdir()
    with pytest.raises(IsADirectoryError):
        save_login(tmp_path, Credentials(api_key="s3cret"))
    assert [entry.name for entry in tmp_path.iterdir()] == [LOGIN_FILE]
