"""What a search passes over unasked: hidden files, git's own, what is ignored, what cannot be read."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from worker import ripgrep
from worker.tools.base import ToolError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.running.conftest import Search

pytestmark = pytest.mark.anyio


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("rules", ["*\n!*/\n!*.py\n", "!.*\n", "!.git/\n!.hidden/\n"])
async def test_an_ignore_file_brings_no_hidden_file_back(
    glob: Search, grep: Search, folder: Path, rules: str
) -> None:
    names = ("src/a.py", ".git/b.py", ".git/hooks/c.py", ".hidden/d.py", ".e.py", "src/.hidden/deep/f.py")
    _write(folder, {".gitignore": rules, **dict.fromkeys(names, "needle")})
    assert await glob("*.py") == "src/a.py"
    assert await glob("**") == "src/a.py"
    assert await grep("needle") == "src/a.py"
    assert await grep("needle", output_mode="content", glob="*.py") == "src/a.py:1:needle"
    assert (await grep("needle", hidden=True)).splitlines() == [
        ".e.py",
        ".hidden/d.py",
        "src/.hidden/deep/f.py",
        "src/a.py",
    ]
    assert ".git/" not in await glob("**", hidden=True)
    assert await glob("*", path="src/.hidden") == "src/.hidden/deep/f.py"
    assert await grep("needle", path=".e.py") == ".e.py"


@pytest.mark.parametrize(
    ("root", "outer"),
    [({".git/HEAD": "x"}, {}), ({".git/HEAD": "x"}, {".git/HEAD": "x"}), ({".jj/x": "x"}, {}), ({}, {})],
)
async def test_an_ignore_file_outside_of_the_project_hides_none_of_it(
    glob: Search, grep: Search, folder: Path, root: dict[str, str], outer: dict[str, str]
) -> None:
    _write(folder.parent, {".gitignore": "*\n", **outer})
    _write(folder, {"a.t": "needle", "sub/b.t": "needle", **root})
    _write(folder, {".gitignore": "build/\n", "build/c.t": "needle"})
    assert sorted((await glob("*.t")).splitlines()) == ["a.t", "sub/b.t"]
    assert await grep("needle", path="sub") == "sub/b.t"


async def test_rules_of_the_whole_repository_count_in_its_folders(
    glob: Search, grep: Search, folder: Path
) -> None:
    _write(folder.parent, {".git/info/exclude": "x.t\n", ".gitignore": "/project/sub/y.t\n"})
    _write(folder, {f"sub/{name}.t": "needle" for name in "xyz"})
    assert await glob("*.t") == "sub/z.t"
    assert await grep("needle", path="sub") == "sub/z.t"


async def test_without_a_repository_rules_of_the_project_count_in_its_folders(
    glob: Search, grep: Search, folder: Path
) -> None:
    _write(folder, {".gitignore": "/sub/x.t\n", "sub/x.t": "needle", "sub/y.t": "needle"})
    assert await glob("sub/*.t") == "sub/y.t"
    assert await grep("needle", path="sub") == "sub/y.t"


async def test_a_linked_worktree_has_the_rules_of_its_repository(glob: Search, folder: Path) -> None:
    main = folder.parent / "main/.git"
    _write(main, {"HEAD": "x", "info/exclude": "x.t\n", "worktrees/w/commondir": "../..\n"})
    _write(folder, {".git": f"gitdir: {main}/worktrees/w\n", "x.t": "", "y.t": ""})
    assert await glob("*.t") == "y.t"


def _stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder.parent / "rg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(ripgrep, "binary", lambda: str(program))


@pytest.mark.parametrize(
    "told",
    [
        "rg: ./pgdata: Permission denied (os error 13)",
        "rg: ./regex.txt: Permission denied (os error 13)",
        "rg: ./regex parse error:\n    x: Permission denied (os error 13)",
        "rg: /home/me/.gitignore: line 1: error parsing glob '[z-a]': invalid range; 'z' > 'a'",
    ],
)
async def test_what_cannot_be_read_is_told_beside_no_match(
    glob: Search, grep: Search, folder: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    (folder.parent / "told").write_text(f"{told}\n" * 1000)
    _stand_in(folder, monkeypatch, f"cat '{folder.parent}/told' >&2; exit 2")
    first = told.removeprefix("rg: ").partition("\n")[0]
    for text in (await glob("*.absent"), await grep("absent"), await grep("absent", output_mode="content")):
        assert text.startswith("No ")
        assert f"ot all could be read: {first}]" in text


async def test_an_ignore_file_that_cannot_be_read_is_no_error(
    glob: Search, grep: Search, folder: Path
) -> None:
    _write(folder, {".git/HEAD": "x", ".gitignore": "[z-a]\n", "sub/f": "text"})
    assert (await grep("absent", path="sub")).startswith("No matches.")
    assert (await glob("sub/*.absent")).startswith("No files match.")


@pytest.mark.parametrize(
    "told", ["rg: regex parse failed, somehow", "rg: something else", "", "thread panicked"]
)
async def test_a_search_that_could_not_be_made_is_an_error(
    grep: Search, folder: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    _stand_in(folder, monkeypatch, f"echo '{told}' >&2; exit 2")
    with pytest.raises(ToolError, match=told.removeprefix("rg: ") or "exit 2"):
        await grep("x")


async def test_a_place_that_may_not_be_read_is_refused(
    glob: Search, grep: Search, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(folder, {"sub/f": "text"})
    # The tests may run as root, which may read all.
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    monkeypatch.setattr(ripgrep, "binary", lambda: "/bin/false")
    with pytest.raises(ToolError, match="sub cannot be read"):
        await glob("sub/*")
    with pytest.raises(ToolError, match="f cannot be read"):
        await grep("x", path="sub/f")
