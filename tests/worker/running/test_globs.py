"""Reading file patterns. Pure."""

from __future__ import annotations

import time

import pytest

from worker.glob_expressions import GlobError
from worker.globs import TYPE, exclude, select, split_base


@pytest.mark.parametrize(
    ("pattern", "base", "rest"),
    [
        ("*.py", "", "*.py"),
        ("main.py", "", "main.py"),
        ("src/*.py", "src", "./*.py"),
        ("src/a/**/*.py", "src/a", "./**/*.py"),
        ("src/main.py", "src", "./main.py"),
        ("../other/*.py", "../other", "./*.py"),
        ("/etc/*.conf", "/etc", "./*.conf"),
        ("/*.txt", "/", "./*.txt"),
        ("~/x/*.py", "~/x", "./*.py"),
        ("a{b,c}/d", "", "a{b,c}/d"),
        ("src/", "src", "./"),
    ],
)
def test_the_folder_that_a_pattern_starts_in_is_split_off(pattern: str, base: str, rest: str) -> None:
    assert split_base(pattern) == (base, rest)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a/**/z.py", ["a/z.py", "a/b/z.py", "a/b/c/z.py"], ["z.py", "b/z.py", "b/a/z.py", "a/z.pyc"]),
        ("**/t/**/x*", ["t/x", "a/t/b/xy", "t/t/x"], ["x", "t/y", "a/b/x"]),
        ("*/b/?.c", ["a/b/x.c", "a/b/é.c"], ["b/x.c", "a/a/b/x.c", "a/b/xy.c"]),
        ("[ab]x/*[!0-9]/f", ["ax/q/f", "bx/1q/f"], ["cx/q/f", "ax/1/f", "ax/q/g"]),
        ("{a,b/c}/*.{js,ts}", ["a/x.js", "b/c/x.ts"], ["b/x.ts", "a/c/x.ts", "a/x.md"]),
        (r"a/\*/[]]/x", ["a/*/]/x"], ["a/b/]/x", "a/*/[/x"]),
        ("a/b*c*d/x", ["a/bcd/x", "a/bXcYd/x", "a/bcdcd/x"], ["a/bdc/x", "a/bc/d/x"]),
        ("**/a/**/b/*/c", ["a/b/x/c", "q/a/r/b/x/c", "a/b/b/x/c"], ["a/b/c", "b/x/c"]),
    ],
)
def test_a_pattern_names_whole_paths(pattern: str, matching: list[str], others: list[str]) -> None:
    selected = select(pattern).path
    assert selected is not None
    assert [path for path in matching if not selected.match(path)] == []
    assert [path for path in others if selected.match(path)] == []


@pytest.mark.parametrize("pattern", ["*.py", "**/*.py", "./*.py", "*.{a,b}", "**", "./"])
def test_what_ripgrep_can_tell_alone_is_not_checked_again(pattern: str) -> None:
    assert select(pattern).path is None


@pytest.mark.parametrize("pattern", ["[a", "a\\", "[z-a]", "{,}"])
def test_a_name_that_cannot_be_read_says_why(pattern: str) -> None:
    with pytest.raises(GlobError):
        select(pattern)


@pytest.mark.parametrize("pattern", ["{a", "x/[a/b", "a/[z-a]/b", "*/../x", "a/\\", "{a,b}" * 20])
def test_a_pattern_that_cannot_be_read_says_why(pattern: str) -> None:
    with pytest.raises(GlobError):
        select(pattern if "/" in pattern or "{" in pattern else f"{pattern}/x")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 30 + "b/x", "a" * 250 + "/x"),
        ("**/a/" * 12 + "b", "a/" * 500 + "c"),
        ("{" + ",".join("*a" * 10 for _ in range(50)) + "}/x", "a" * 250 + "/y"),
    ],
)
def test_no_pattern_is_catastrophic(pattern: str, path: str) -> None:
    selected = select(pattern).path
    assert selected is not None
    started = time.process_time()
    assert selected.match(path) is None
    assert time.process_time() - started < 2  # a backtracking one takes years


@pytest.mark.parametrize(("pattern", "hidden"), [(".env*", True), (".github/**", True), ("a/*.b", False)])
def test_a_pattern_that_names_a_dot_means_hidden_files(pattern: str, hidden: bool) -> None:
    assert select(pattern).hidden is hidden


@pytest.mark.parametrize(
    ("pattern", "given"),
    [("x?}*", r"x*\}*"), ("caf?.txt", "caf*.txt"), ("[!a]x[]b].md", "*x*.md"), (r"\?[ab]\[?.c", r"\?*\[*.c")],
)
def test_ripgrep_gets_no_pattern_for_one_character(pattern: str, given: str) -> None:
    selected = select(pattern)
    assert f"{TYPE}:{given}" in selected.arguments
    assert selected.path is not None


@pytest.mark.parametrize(
    ("pattern", "excluded", "others"),
    [
        ("caf?.txt", ["café.txt", "a/cafe.txt"], ["caf.txt", "a/café.txtx", "café.txt2/a"]),
        ("caf??.txt", ["cafés.txt"], ["café.txt"]),
        ("b?ild", ["build", "a/build/x/y", "bäild/x"], ["builds/x", "a/rebuild"]),
        ("b?ild/", ["build/x", "a/build/x/y"], ["build", "a/build"]),
        ("src/[!a]*", ["src/b/c", "src/日.md"], ["src/a", "x/src/b"]),
        ("/[ab]", ["a", "b/c"], ["c/a"]),
        ("{x,y?}/**", ["x/a", "yé/a/b"], ["x", "y/a", "a/x/b"]),
    ],
)
def test_an_excluding_pattern_leaves_out_what_it_names_and_all_below(
    pattern: str, excluded: list[str], others: list[str]
) -> None:
    selected = exclude(pattern)
    assert selected.arguments == ()
    assert selected.path is not None
    assert [path for path in excluded if selected.path.match(path)] == []
    assert [path for path in others if not selected.path.match(path)] == []


@pytest.mark.parametrize(
    ("pattern", "given"),
    [
        (r"*.{md,\[x}", ["/**/*.\\[x", "/**/*.md"]),
        ("./docs//**", ["/docs/**/*"]),
        ("/a/./b/", ["/a/b/"]),
        ("{src/gen,node_modules/}", ["/**/node_modules/", "/src/gen"]),
        (r"a}\}", [r"/**/a\}\}"]),
    ],
)
def test_ripgrep_excludes_what_it_can_tell_alone(pattern: str, given: list[str]) -> None:
    selected = exclude(pattern)
    assert selected.arguments == tuple(f"--glob=!{one}" for one in given)
    assert selected.path is None


@pytest.mark.parametrize("pattern", ["", "/", "[a", "{a", "a\\", "[z-a]", "{,a}"])
def test_an_excluding_pattern_that_cannot_be_read_says_why(pattern: str) -> None:
    with pytest.raises(GlobError):
        exclude(pattern)
