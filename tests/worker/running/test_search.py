"""glob and grep with the real ripgrep on real files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.worker.running.watching import alive
from worker import ripgrep
from worker.tools.base import Access, ToolError
from worker.tools.glob import TOOL as GLOB
from worker.tools.glob import GlobInput
from worker.tools.grep import TOOL as GREP
from worker.tools.grep import GrepInput

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.running.conftest import Search
    from worker.tools.processes import Processes

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(folder: Path) -> Path:
    """A folder that is no git repository, and yet has rules for git."""
    files = {
        "a.py": "import os\nneedle = 1\n",
        "src/b.py": "needle = 2\nNEEDLE = 3\n",
        "src/deep/c.py": "x\r\nneedle crlf\r\n",
        "src/deep/d.md": "no\n",
        ".gitignore": "*.log\nbuild/\n",
        "e.log": "needle\n",
        "build/f.py": "needle\n",
        ".hidden/g.py": "needle\n",
        ".h.py": "needle\n",
        ".git/config.py": "needle\n",
        "sub/.git": "needle gitdir\n",
    }
    for number, (name, text) in enumerate(files.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (number, number))
    return folder


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"pattern": "*.py"}, ["src/deep/c.py", "src/b.py", "a.py"]),
        ({"pattern": "**/*.py"}, ["src/deep/c.py", "src/b.py", "a.py"]),
        ({"pattern": "./*.py"}, ["a.py"]),
        ({"pattern": "src/*.py"}, ["src/b.py"]),
        ({"pattern": "src/**"}, ["src/deep/d.md", "src/deep/c.py", "src/b.py"]),
        ({"pattern": "*/deep/*"}, ["src/deep/d.md", "src/deep/c.py"]),
        ({"pattern": "*.{md,log}"}, ["src/deep/d.md"]),
        ({"pattern": "*.log", "include_ignored": True}, ["e.log"]),
        ({"pattern": "*.py", "path": "src"}, ["src/deep/c.py", "src/b.py"]),
        ({"pattern": "../project/src/*.py", "path": "."}, ["src/b.py"]),
        (
            {"pattern": "*.py", "hidden": True, "include_ignored": True},
            [".h.py", ".hidden/g.py", "build/f.py", "src/deep/c.py", "src/b.py", "a.py"],
        ),
        ({"pattern": ".h*"}, [".h.py"]),
        ({"pattern": "-e"}, None),
        ({"pattern": "--files"}, None),
        ({"pattern": "a:b"}, None),
    ],
)
async def test_glob_finds_the_newest_first(
    glob: Search, given: dict[str, Any], found: list[str] | None
) -> None:
    text = await glob(**given)
    if found is None:
        assert text.startswith("No files match.")
    else:
        assert text.splitlines() == found


@pytest.mark.usefixtures("tree")
async def test_git_itself_is_never_searched(glob: Search, grep: Search) -> None:
    everything: dict[str, Any] = {"hidden": True, "include_ignored": True}
    assert ".git/" not in await glob("**/*", **everything)
    assert "sub/.git" not in await glob("**/*", **everything)
    assert ".git/" not in await grep("needle", **everything)
    with pytest.raises(ToolError, match=r"\.git"):
        await glob(".git/*")
    with pytest.raises(ToolError, match=r"\.git"):
        await grep("needle", path=".git")


@pytest.mark.usefixtures("tree")
async def test_grep_gives_paths_or_lines_sorted_by_path(grep: Search) -> None:
    assert (await grep("needle")).splitlines() == ["a.py", "src/b.py", "src/deep/c.py"]
    assert (await grep("needle", output_mode="content", case_insensitive=True)).splitlines() == [
        "a.py:2:needle = 1",
        "src/b.py:1:needle = 2",
        "src/b.py:2:NEEDLE = 3",
        "src/deep/c.py:2:needle crlf",
    ]


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("b.*", ["src/b.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("*.{py,md}", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("!*.py", None),
        ("!src/**", ["a.py"]),
        ("*.log", None),
    ],
)
async def test_a_glob_narrows_grep_and_lets_no_ignored_file_in(
    grep: Search, glob: str, found: list[str] | None
) -> None:
    text = await grep("needle", glob=glob)
    assert text.startswith("No matches.") if found is None else text.splitlines() == found


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("!./docs/**", "pkg/docs/x pkg/node_modules/x src/gen/x trail}x"),
        ("!docs//**", "pkg/docs/x pkg/node_modules/x src/gen/x trail}x"),
        ("!./docs", "pkg/docs/x pkg/node_modules/x src/gen/x trail}x"),
        ("!/docs/", "pkg/docs/x pkg/node_modules/x src/gen/x trail}x"),
        ("!docs", "pkg/node_modules/x src/gen/x trail}x"),
        ("!{src/gen,node_modules}", "docs/x pkg/docs/x trail}x"),
        ("!{src/./gen,docs/}", "pkg/node_modules/x trail}x"),
        ("!trail}*", "docs/x pkg/docs/x pkg/node_modules/x src/gen/x"),
        ("trail}*", "trail}x"),
        ("*/docs/{x,y}}", None),
        ("FOLDER/docs/*", "docs/x"),
        ("!FOLDER/**/docs/*", "pkg/node_modules/x src/gen/x trail}x"),
        ("FOLDER/*/x", "docs/x"),
        ("/docs/*", "docs/x"),
    ],
)
async def test_a_glob_means_the_same_however_it_is_written(
    grep: Search, folder: Path, glob: str, found: str | None
) -> None:
    for name in ("docs/x", "pkg/docs/x", "pkg/node_modules/x", "src/gen/x", "trail}x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("needle")
    text = await grep("needle", glob=glob.replace("FOLDER", str(folder)))
    assert text.startswith("No matches.") if found is None else text.splitlines() == found.split()


async def test_a_glob_from_above_what_is_searched_is_an_error(grep: Search, folder: Path) -> None:
    (folder / "src").mkdir()
    with pytest.raises(ToolError, match="above"):
        await grep("x", path="src", glob=f"{folder}/*.py")


async def test_a_character_of_a_name_need_not_be_ascii(glob: Search, grep: Search, folder: Path) -> None:
    for name in ("café.txt", "日.md", "naïve.py"):
        (folder / name).write_text("needle")
    for pattern, found in {
        "caf?.txt": "café.txt",
        "caf[éè].txt": "café.txt",
        "?.md": "日.md",
        "[!x].md": "日.md",
        "{na?ve,x}.py": "naïve.py",
        "./n*?e.py": "naïve.py",
    }.items():
        assert await glob(pattern) == found
        assert await grep("needle", glob=pattern) == found
    assert (await glob("??.md")).startswith("No files match.")
    assert (await grep("needle", glob="!caf?.txt")).splitlines() == ["naïve.py", "日.md"]


@pytest.mark.usefixtures("tree")
async def test_grep_in_one_file(grep: Search) -> None:
    assert await grep("needle", path="e.log", output_mode="content") == "e.log:1:needle"


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("x(foo", "unclosed group, at character 2"),
        ("a[b", "unclosed character class, at character 2"),
        ("ab\\", "backslash with nothing after it, at character 3"),
        ("*", "missing expression, at character 1"),
        ("a{2,1}", "at character 2"),
        ("(?=x)", "look-around.* not supported, at character 1"),
        ("a{1000}{1000}{1000}", "size limit"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name.*, at character"),
        ("foo\nba(r", "unclosed group, at line 2, character 3:\n {4}ba\\(r\n {6}\\^"),
        ("1\n2\n3\n4\n5\n6\n7\n8\n9\nx{2,1}", "at line 10, character 2"),
        ("a\\p{Fo\no}", "property not found, at line 1, character 2"),
        ("foo(\\n", "unclosed group, at character 4"),
    ],
)
async def test_an_invalid_expression_says_where(grep: Search, pattern: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        await grep(pattern)


@pytest.mark.parametrize(
    "pattern", ["-needle", "--", "-f/etc/passwd", "--pre=id", "$(id)", "(a+)+$", "a\nb", "\\n"]
)
async def test_any_pattern_is_a_pattern(grep: Search, folder: Path, pattern: str) -> None:
    (folder / "f").write_text("a" * 30_000 + "!")
    assert (await grep(pattern)).startswith("No matches.")


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"a\x0Ab", r"a\u{a}b", r"a[\n]b", "a\nb", r"a\n?b", r"a\r?\nb", r"a$\nb", "(?x)a \\n\n b"),
        *(r"a[[:blank:]\n]b", r"a[^[:alpha:]\n]?\nb", r"a(;|\n)b", r"a[;\n]b", r"a(;|\x0A)b", "a(;|\n)b"),
        *(r"a(;|\u{a})b", r"a(;|\x{0A})b", r"a[;\x0A]b", "a[;\n]b"),
    ],
)
async def test_a_line_feed_in_any_form_is_valid(grep: Search, folder: Path, pattern: str) -> None:
    (folder / "f").write_text("a\nb\n")
    (folder / "g").write_text("a(b, a?:b\n")
    assert await grep(pattern) == "f"


@pytest.mark.parametrize(
    "pattern",
    [r"a[\s\S]b", r"a[\W\w]+?b", r"a[\d\D]*b", r"(?s)a.b", r"(?is)A.B", r"(?is-m:A.B)", r"a(?s:.+?)b"],
)
async def test_what_stands_for_any_character_reaches_over_lines(
    grep: Search, folder: Path, pattern: str
) -> None:
    (folder / "f").write_text("a\nb\n")
    (folder / "g").write_text("a\nc\n")
    assert await grep(pattern) == "f"


@pytest.mark.parametrize("pattern", [r"a(;|\n", r"a[;\n", r"(?s)a(", r"(a|\x0A){2,1}"])
async def test_an_invalid_expression_over_lines_is_told_as_it_was_written(grep: Search, pattern: str) -> None:
    with pytest.raises(ToolError, match="at character") as caught:
        await grep(pattern)
    assert f"    {pattern}\n" in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (";$", [1]),
        (r"\r", [1, 2]),
        (r";\r$", [1]),
        (r"bar\r?$", [2]),
        (r"foo;\nbar", [1, 2]),
        ("foo;\nbar$", [1, 2]),
        (r";$\n", [1]),
        (r"foo;\r\nbar\r$", [1, 2]),
        (r"[^\r]\n", []),
    ],
)
async def test_a_lines_end_is_found_before_crlf_too(
    grep: Search, folder: Path, pattern: str, lines: list[int]
) -> None:
    (folder / "f").write_bytes(b"foo;\r\nbar\r\n")
    found = await grep(pattern, output_mode="content")
    assert [int(line.split(":")[1]) for line in found.splitlines() if line.startswith("f:")] == lines


async def test_an_expression_may_end_in_a_comment(grep: Search, folder: Path) -> None:
    (folder / "f").write_text("needle\n")
    assert await grep("(?x) need le # comment (") == "f"
    assert await grep("(?i)(?x: NEED )le") == "f"
    with pytest.raises(ToolError, match="unclosed group, at character 6"):
        await grep("(?x) ( # comment")


@pytest.mark.parametrize("pattern", ["a\0b", "\\x00"])
async def test_a_pattern_that_only_binary_files_hold_is_told(grep: Search, pattern: str) -> None:
    with pytest.raises(ToolError, match="only binary files"):
        await grep(pattern)


async def test_a_pattern_may_span_lines(grep: Search, folder: Path) -> None:
    (folder / "f").write_text("one\ntwo\n")
    assert await grep("one\\ntwo", output_mode="content") == "f:1:one\nf:2:two"


@pytest.mark.parametrize("pattern", ["[", "{a", "a/[", "\\", "{,}"])
async def test_an_invalid_glob_is_an_error(glob: Search, grep: Search, pattern: str) -> None:
    with pytest.raises(ToolError, match=r"glob|cannot be read"):
        await glob(pattern)
    with pytest.raises(ToolError, match=r"glob|cannot be read"):
        await grep("x", glob=pattern)


async def test_names_of_any_bytes_are_shown_safely(glob: Search, grep: Search, folder: Path) -> None:
    for name in (
        b"bad\xff.t",
        b"new\nline.t",
        b"esc\x1b[31m.t",
        b"rtl\xe2\x80\xae.t",
        b"\xc3\xbc b.t",
        b"-x.t",
    ):
        (folder / os.fsdecode(name)).write_text("needle\n")
    listed = await glob("*.t")
    found = await grep("needle", output_mode="content")
    for text in (listed, found):
        text.encode()
        assert len(text.splitlines()) == 6
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "bad\\xff.t" in text
        assert "ü b.t" in text


async def test_contents_of_any_bytes_are_shown_safely(grep: Search, folder: Path) -> None:
    (folder / "latin").write_bytes(b"needle \xe9 \x1b[31m\n")
    (folder / "long").write_text("needle " + "x" * 100_000)
    (folder / "binary").write_bytes(b"needle\n\0")
    lines = (await grep("needle", output_mode="content")).splitlines()
    assert lines[0] == "latin:1:needle \ufffd ␛[31m"
    assert len(lines[1]) < 700
    assert not any(line.startswith("binary") for line in lines)


async def test_secrets_are_not_shown_unasked(grep: Search, folder: Path) -> None:
    (folder / ".env").write_text("needle=1\n")
    (folder / "server.pem").write_text("needle\n" * 3)
    (folder / "plain").write_text("needle\n")
    text = await grep("needle", hidden=True, output_mode="content")
    assert text.splitlines()[0] == "plain:1:needle"
    assert "needle=1" not in text
    assert "2 files that may hold secrets" in text
    assert "truncated" not in text
    assert "truncated" not in await grep("needle", hidden=True, output_mode="content", max_results=1)
    asked = (Access(folder / ".env", write=False),)
    assert await grep("needle", path=".env", output_mode="content", permitted=asked) == ".env:1:needle=1"


async def test_outside_the_roots_only_what_was_permitted(grep: Search, glob: Search, tmp_path: Path) -> None:
    outside = (tmp_path / "outside").resolve()
    outside.mkdir()
    (outside / "f.txt").write_text("needle\n")
    asked = (Access(outside, write=False),)
    with pytest.raises(ToolError, match="permitted"):
        await grep("needle", path=str(outside))
    assert await grep("needle", path=str(outside), permitted=asked) == f"{outside}/f.txt"
    with pytest.raises(ToolError, match="permitted"):
        await glob("../outside/*")
    assert await glob("../outside/*", permitted=asked) == f"{outside}/f.txt"


def test_what_is_searched_is_named_for_the_permission(folder: Path) -> None:
    assert GREP.accesses(GrepInput(pattern="x", path="/etc"), folder) == [
        Access(folder / "/etc", write=False)
    ]
    named = GLOB.accesses(GlobInput(pattern="/etc/**/*.conf"), folder)
    assert [str(access.path) for access in named] == ["/etc"]
    named = GLOB.accesses(GlobInput(pattern="../x/*", path="src"), folder)
    assert named == [Access(folder / "src/../x", write=False)]


async def test_links_are_not_followed_and_loops_are_nothing(
    glob: Search, grep: Search, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("needle\n")
    (folder / "loop").symlink_to(folder)
    (folder / "out.txt").symlink_to(secret)
    (folder / "in.txt").write_text("needle\n")
    os.mkfifo(folder / "fifo.txt")
    assert await grep("needle") == "in.txt"
    assert "loop/" not in await glob("**/*")


@pytest.mark.parametrize("path", ["nowhere", "fifo", "/dev/zero"])
async def test_what_cannot_be_searched_is_refused_at_once(grep: Search, folder: Path, path: str) -> None:
    os.mkfifo(folder / "fifo")
    with pytest.raises(ToolError):
        await grep("x", path=path)


async def test_results_are_bounded_and_say_so(glob: Search, grep: Search, folder: Path) -> None:
    for number in range(700):
        (folder / f"f{number:03}.txt").write_text("needle\nneedle\n")
    listed = (await glob("*.txt")).splitlines()
    assert len(listed) == 501
    assert listed[-1].startswith("[truncated: 500 of 700 files, the newest")
    found = (await grep("needle", max_results=10, output_mode="content")).splitlines()
    assert found[0] == "f000.txt:1:needle"
    assert len(found) == 11
    assert "truncated: the first 10 of at least 1,400 lines" in found[-1]
    assert len((await grep("needle", max_results=700)).splitlines()) == 700


@pytest.mark.parametrize("path", [".", "f"])
async def test_one_file_is_not_cut_in_silence(grep: Search, folder: Path, path: str) -> None:
    (folder / "f").write_text("needle\n" * 10)
    for shown in (1, 9):
        found = (await grep("needle", path=path, output_mode="content", max_results=shown)).splitlines()
        assert found[shown:] == [f"[truncated: the first {shown} of at least {shown + 1} lines]"]
    assert "truncated" not in await grep("needle", path=path, output_mode="content", max_results=10)


async def test_no_more_is_shown_than_a_model_should_read(grep: Search, glob: Search, folder: Path) -> None:
    (folder / "f").write_text(f"{'é' * 249}\n" * 1000)
    text = await grep("é", output_mode="content", max_results=5000)
    assert 90_000 < len(text.encode()) < 101_000
    assert text.splitlines()[-1].startswith("[truncated: the first 198 of at least 1,000 lines")
    deep = folder.joinpath(*["d" * 250] * 3)
    deep.mkdir(parents=True)
    for number in range(200):
        (deep / f"f{number}.t").write_text("needle\n")
    for text in (await glob("*.t"), await grep("needle", max_results=200)):
        assert len(text) < 101_000
        assert "[truncated: " in text


async def test_a_flood_of_results_ends_at_the_byte_budget(grep: Search, folder: Path) -> None:
    for number in range(40):
        (folder / f"f{number}").write_text(f"{'needle' * 80}\n" * 5000)
    text = await grep("needle", output_mode="content", max_results=5000)
    assert "truncated: the search was ended after 8 MiB" in text


async def test_the_time_budget_tells(glob: Search, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _slow_ripgrep(folder, monkeypatch)
    monkeypatch.setattr(ripgrep, "SECONDS", 0.3)
    text = await glob("*")
    assert text.splitlines()[0] == "early"
    assert "truncated: the search was ended after 0.3 s" in text


async def test_cancel_ends_the_search(
    glob: Search, folder: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow_ripgrep(folder, monkeypatch)
    with anyio.move_on_after(0.3):
        await glob("*")
    with anyio.fail_after(5):
        await processes.settle()
    assert alive(str(folder / "rg")) == []


def _slow_ripgrep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "rg"
    program.write_text("#!/bin/sh\nprintf 'early\\0half'\nexec sleep 60\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(ripgrep, "binary", lambda: str(program))


async def test_the_users_own_configuration_of_ripgrep_changes_nothing(grep: Search, folder: Path) -> None:
    (folder / "rgrc").write_text("--invert-match\n")
    (folder / "f").write_text("needle\n")
    environment = {**os.environ, "RIPGREP_CONFIG_PATH": str(folder / "rgrc")}
    assert await grep("needle", environment=environment) == "f"


async def test_without_ripgrep_the_model_is_told(
    glob: Search, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ripgrep, "_WHEEL", "no-such-distribution")
    monkeypatch.setenv("PATH", str(tmp_path))
    ripgrep.binary.cache_clear()
    try:
        with pytest.raises(ToolError, match="ripgrep is missing"):
            await glob("*")
    finally:
        ripgrep.binary.cache_clear()
