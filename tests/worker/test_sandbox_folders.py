"""Which folders commands may write besides the session's own: caches, worktrees, the scratch folder."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from worker.boundaries import resolve, sensitive
from worker.sandbox_folders import CACHES, caches, worktree_folders
from worker.scratch import Scratch, remove_abandoned

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = resolve(tmp_path) / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    return made


def test_no_cache_is_a_place_that_asks() -> None:
    for name, _ in CACHES:
        assert sensitive(Path("/home/u") / name) is None, name


def test_the_cache_of_an_installed_program_is_made_and_no_others(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin" / "npm"
    npm.touch(0o755)
    found = list(caches({"PATH": str(npm.parent)}))
    assert found == [home / ".cache", home / ".npm"]
    assert (home / ".npm").stat().st_mode & 0o777 == 0o700
    assert sorted(entry.name for entry in home.iterdir()) == [".cache", ".npm"]


def test_caches_that_the_user_moved_are_found_where_they_are(home: Path, tmp_path: Path) -> None:
    moved = resolve(tmp_path) / "moved"
    moved.mkdir()
    (home / ".cache").symlink_to(moved)
    other = moved / "pip"
    other.mkdir()
    assert list(caches({"PATH": "", "PIP_CACHE_DIR": str(other)})) == [moved, other]


def test_a_variable_that_would_open_the_home_folder_or_a_guarded_one_opens_nothing(home: Path) -> None:
    (home / ".ssh").mkdir()
    for value in (
        "/",
        str(home),
        str(home.parent),
        f"{home}/x/..",
        str(home / ".ssh"),
        "relative",
        "/no/such",
    ):
        found = list(caches({"PATH": "", "XDG_CACHE_HOME": value}))
        assert found == [home / ".cache"], value


def git(*arguments: str, cwd: Path) -> None:
    environment = os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null"}
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(named, cwd=cwd, check=True, capture_output=True, env=environment)


@pytest.fixture
def worktree(home: Path) -> Path:
    (home / "main").mkdir()
    git("init", "-q", cwd=home / "main")
    git("commit", "-q", "--allow-empty", "-m", "m", cwd=home / "main")
    git("worktree", "add", "-q", str(home / "linked"), cwd=home / "main")
    return home / "linked"


def test_a_linked_worktree_opens_where_its_commits_go_but_not_what_git_runs(
    worktree: Path, home: Path
) -> None:
    git_folder = home / "main" / ".git"
    found = list(worktree_folders(worktree))
    assert found == [
        git_folder / "worktrees" / "linked",
        *(git_folder / n for n in ("objects", "refs", "logs")),
    ]


def test_a_pointer_that_the_repository_does_not_answer_opens_nothing(worktree: Path, home: Path) -> None:
    project = home / "project"
    project.mkdir()
    guarded = home / "worktrees" / "x"
    guarded.mkdir(parents=True)
    for name in ("objects", "refs", "logs"):
        (home / name).mkdir()
    for text in (
        f"gitdir: {home}/main/.git/worktrees/linked\n",
        f"gitdir: {home}/main/.git\n",
        f"gitdir: {home}/.ssh\n",
        f"gitdir: {guarded}\n",
        "gitdir: \0\n",
        "",
    ):
        (project / ".git").write_text(text)
        assert list(worktree_folders(project)) == []
    (project / ".git").unlink()
    os.mkfifo(project / ".git")
    assert list(worktree_folders(project)) == []


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Not pytest's own folder: a socket's path has 107 octets, and that of a test may take them all.
    with tempfile.TemporaryDirectory(prefix="iac-") as short:
        monkeypatch.setenv("TMPDIR", short)
        yield resolve(Path(short))


def test_the_scratch_folder_is_private_short_the_same_each_time_and_removed(place: Path) -> None:
    scratch = Scratch(Path("/home/u/.iac-code/sessions/s1"))
    assert not scratch.path.exists()
    scratch.make()
    scratch.make()
    assert scratch.path.stat().st_mode & 0o777 == 0o700
    assert len(scratch.path.name) < 40
    (scratch.path / "a" / "b").mkdir(parents=True)
    (scratch.path / "a" / "link").symlink_to(place)
    (scratch.path / "a" / "to-file").symlink_to("/etc/hostname")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(scratch.path / "socket"))
    next_epoch = Scratch(Path("/home/u/.iac-code/sessions/s1"))
    next_epoch.make()
    assert next_epoch.path == scratch.path
    scratch.remove()
    assert (scratch.path / "a").exists(), "another epoch has it"
    next_epoch.remove()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "file", "open to others"])
def test_a_scratch_folder_that_someone_else_made_is_not_used(place: Path, kind: str) -> None:
    scratch = Scratch(place / "session")
    if kind == "link":
        scratch.path.symlink_to("/etc")
    elif kind == "file":
        scratch.path.touch()
    else:
        scratch.path.mkdir(mode=0o755)
    with pytest.raises(OSError, match="someone else's"):
        scratch.make()


def test_scratch_folders_of_killed_workers_are_removed_later(place: Path) -> None:
    used, dead, fresh = (Scratch(place / name) for name in ("used", "dead", "fresh"))
    used.make()
    for left in (dead, fresh):
        left.path.mkdir(mode=0o700)
        (left.path / "a").touch()
    long_ago = time.time() - 3600
    for scratch in (used, dead):
        os.utime(scratch.path, (long_ago, long_ago))
    other = place / "iac-code-scratch-of-another"
    other.mkdir(mode=0o700)
    os.utime(other, (long_ago, long_ago))
    remove_abandoned()
    assert [s.path.exists() for s in (used, dead, fresh)] == [True, False, True]
    assert other.exists()
    used.remove()
