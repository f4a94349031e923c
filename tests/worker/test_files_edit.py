"""`edit_file` changes the bytes that it was asked to change, and no others."""

from __future__ import annotations

import os
import random
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from tests.worker.filing import Session
from worker.files.decoding import detect
from worker.files.diffs import count_changed, region_between, regions_of
from worker.files.editing import replacements, spliced
from worker.tools.base import ToolError

pytestmark = pytest.mark.anyio


CASES = {
    "lf": (b"a\nb\nc\n", "b", "x\ny", b"a\nx\ny\nc\n"),
    "crlf, one line": (b"a\r\nb\r\nc\r\n", "b", "x", b"a\r\nx\r\nc\r\n"),
    "crlf, lines inserted": (b"a\r\nb\r\nc\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\nc\r\n"),
    "crlf, old over lines": (b"a\r\nb\r\nc\r\n", "a\nb\n", "q\n", b"q\r\nc\r\n"),
    "crlf written out": (b"a\r\nb\r\n", "a\r\nb", "q\r\nr", b"q\r\nr\r\n"),
    "crlf, newline at the start": (b"a\r\nb\r\n", "\nb", "\nx\ny", b"a\r\nx\r\ny\r\n"),
    "crlf, a line removed": (b"a\r\nb\r\nc", "b\n", "", b"a\r\nc"),
    "mixed, at an lf line": (b"a\r\nb\nc\n", "b", "x\ny", b"a\r\nx\ny\nc\n"),
    "mixed, at a crlf line": (b"a\r\nb\nc\n", "a", "x\ny", b"x\r\ny\r\nb\nc\n"),
    "mixed, kept lines keep theirs": (
        b"a\r\nb\nc\r\nd\n",
        "a\nb\nc\nd",
        "a\nB\nc\nd",
        b"a\r\nB\nc\r\nd\n",
    ),
    "mixed, a line put in between": (b"a\r\nb\nc\n", "a\nb\nc", "a\nnew\nb\nc", b"a\r\nnew\r\nb\nc\n"),
    "no last newline": (b"a\nb", "b", "c", b"a\nc"),
    "at the very end": (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
    "one line, no newline": (b"a", "a", "b\nc", b"b\nc"),
    "bom": (b"\xef\xbb\xbfa\nb\n", "a", "z", b"\xef\xbb\xbfz\nb\n"),
    "bom and crlf": (b"\xef\xbb\xbfa\r\nb\r\n", "a\nb", "a\nx\nb", b"\xef\xbb\xbfa\r\nx\r\nb\r\n"),
    "latin-1 elsewhere": (b"caf\xe9\nb\n", "b", "c", b"caf\xe9\nc\n"),
    "latin-1 in it": (b"caf\xe9\nb\n", "café", "thé", b"th\xe9\nb\n"),
    "windows-1252": (b"\x93a\x94 \xe9\n", "“a”", "“b”", b"\x93b\x94 \xe9\n"),
    "octets of no encoding": (b"\x81\x8d\xff\nb\n", "b", "é", b"\x81\x8d\xff\n\xe9\n"),
    "utf-8 with a stray octet": ("äöü ".encode() + b"\xff x\n", "ö", "ß", "äßü ".encode() + b"\xff x\n"),
    "latin-1 line in utf-8": (
        "äöüß\n".encode() + b"caf\xe9\n",
        "café",
        "thé",
        "äöüß\n".encode() + b"th\xe9\n",
    ),
    "latin-1 lines with crlf in utf-8": (
        "äöüß\r\n".encode() + b"caf\xe9\r\nb\r\n",
        "café\nb",
        "thé\nc\nb",
        "äöüß\r\n".encode() + b"th\xe9\r\nc\r\nb\r\n",
    ),
    "utf-8": ("größe 𝄞\r\nx".encode(), "größe", "länge", "länge 𝄞\r\nx".encode()),
    "utf-16": ("a\r\nb\r\n".encode("utf-16"), "b", "ü\nc", "a\r\nü\r\nc\r\n".encode("utf-16")),
    "utf-16 be": (
        b"\xfe\xff" + "ab\n".encode("utf-16-be"),
        "b",
        "x",
        b"\xfe\xff" + "ax\n".encode("utf-16-be"),
    ),
    "form feeds and separators": ("a\x0cb\u2028c\x85d\n".encode(), "b", "x", "a\x0cx\u2028c\x85d\n".encode()),
    "carriage returns alone": (b"a\rb\rc", "b", "x", b"a\rx\rc"),
    "regular expression signs": (b"a.*(b)\r\nc\nd", ".*(b)\nc", "\\1$&", b"a\\1$&\nd"),
    "nul late in the file": (b"x" * 9000 + b"\0\nend", "end", "END", b"x" * 9000 + b"\0\nEND"),
}


@pytest.mark.parametrize("case", CASES)
async def test_an_edit_changes_these_bytes_only(session: Session, case: str) -> None:
    before, old, new, after = CASES[case]
    file = session.folder / "f.txt"
    file.write_bytes(before)
    output = await session.edit("f.txt", old, new)
    assert not output.is_error, output.text
    assert file.read_bytes() == after


@given(st.binary(max_size=60), st.text(min_size=1, max_size=3), st.text(max_size=3), st.booleans())
def test_what_was_not_matched_keeps_every_byte(data: bytes, old: str, new: str, everywhere: bool) -> None:
    encoding = detect(data)
    if encoding is None:
        return
    text = encoding.decode(data)
    assert encoding.encode(text) == data
    try:
        changes = replacements(text, old, new, everywhere=everywhere)
    except ToolError:
        return
    changed = spliced(text, changes)
    kept_before, kept_after = text[: changes[0].start], text[changes[-1].end :]
    assert changed.startswith(kept_before)
    assert changed.endswith(kept_after)


@given(
    st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from(["\n", "\r\n"])), max_size=12),
    st.text("ab\n", min_size=1, max_size=6),
    st.sampled_from([0, 1_000_000]),
)
def test_a_line_feed_matches_either_line_end(lines: list[tuple[str, str]], old: str, looked_at: int) -> None:
    """Both ways of searching find what a search that knows no carriage returns finds."""
    text = "".join(line + end for line, end in lines)
    plain = text.replace("\r\n", "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.files.editing._LOOKED_AT", looked_at)
        try:
            changes = replacements(text, old, "<>", everywhere=True)
        except ToolError:
            assert old not in plain
            return
    assert spliced(text, changes).replace("\r\n", "\n") == plain.replace(old, "<>")
    for change in changes:
        assert text[change.start : change.end].replace("\r\n", "\n") == old


@pytest.mark.parametrize(("text", "after"), [("aaaa", "Xa"), ("aaa\r\naaaa", "X\r\nXa")])
def test_of_places_that_overlap_the_first_is_replaced(text: str, after: str) -> None:
    assert spliced(text, replacements(text, "aaa", "X", everywhere=True)) == after


async def test_every_occurrence_is_replaced_on_demand(session: Session) -> None:
    (session.folder / "f").write_bytes(b"x\r\nax\nx")
    output = await session.edit("f", "x", "yy", replace_all=True)
    assert "3 replacements" in output.text
    assert (session.folder / "f").read_bytes() == b"yy\r\nayy\nyy"


REFUSED = {
    "absent": (b"a\nb\n", "c", "d", ["does not occur"]),
    "twice": (b"x\ny\nx\n", "x", "d", ["occurs 2 times", "lines 1, 3"]),
    "twice by different line ends": (b"m\r\nn\nm\nn\n", "m\nn", "d", ["occurs 2 times", "lines 1, 3"]),
    "overlapping": (b"aaa\n", "aa", "b", ["occurs 2 times"]),
    "overlapping over lines": (b"a\r\nb\na\nb\na", "a\nb\na", "c", ["occurs 2 times"]),
    "many": (b"x\n" * 50, "x", "d", ["occurs 50 times", "8, 9, 10, …"]),
    "empty": (b"a", "", "b", ["empty"]),
    "the same": (b"a", "a", "a", ["the same"]),
    "spaces differ": (
        b"if x:\n\treturn  1\n",
        "if x:\n    return 1",
        "d",
        ["but for spaces", "lines 1-2", "'\\treturn  1'"],
    ),
    "crlf asked of lf": (b"a\nb\n", "a\r\nb", "d", ["but for spaces or line ends", "'a\\r'"]),
    "a word misspelt": (
        b"import os\n\ndef compute_total(items):\n    return sum(items)\n",
        "def compute_totals(items):\n    return sum(items)",
        "d",
        ["nearest text", "lines 3-4", "'def compute_total(items):'"],
    ),
    "a line is different": (
        b"one = 1\ntwo = 2\nthree_things = 3\n",
        "one = 1\ntwo = 5\nthree_things = 3",
        "d",
        ["nearest text", "Line 2 has 'two = 2'"],
    ),
    "not in the encoding": (b"caf\xe9 z\n", "z", "→", ["Windows-1252", "U+2192"]),
    "a nul": (b"PK\x03\x04\0\0binary a", "a", "b", ["is binary"]),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_an_edit_without_one_clear_place_is_refused(session: Session, case: str) -> None:
    data, old, new, told = REFUSED[case]
    file = session.folder / "f"
    file.write_bytes(data)
    output = await session.edit("f", old, new)
    assert output.is_error
    for part in told:
        assert part in output.text
    assert file.read_bytes() == data
    assert session.names() == ["f"]


async def test_a_near_miss_in_a_large_file_is_found_quickly(session: Session) -> None:
    lines = [f"value_{i} = compute({i}, option={i % 7})" for i in range(100_000)]
    (session.folder / "f").write_text("\n".join(lines))
    started = anyio.current_time()
    output = await session.edit("f", "value_77777 = compute(77777, option=9)", "x")
    assert "Line 77778 has" in output.text
    assert anyio.current_time() - started < 3


@pytest.mark.parametrize(
    ("data", "old", "new"),
    [
        ("a" * 4_000_000, "a", "b"),
        ("x y\n" * 500_000, "x y\n" * 500 + "z", "b"),
        ("x  y\n" * 300_000, "x y\n" * 500 + "z", "b"),
        ("if x:\n    return value\n" * 100_000, "if x:\n    return values\n" * 1000, "b"),
        (" " * 2_000_000 + "\n", " " * 5000 + "x", "b"),
        ("a\r\nb\n" * 200_000, "a\nb\n" * 2000 + "c", "b"),
        ("a\r\n" * 1500 + "b\n", "a\n" * 1500 + "b\n", "a\n" * 1500 + "c\n"),
        ("word " * 400_000, "wrod " * 400, "b"),
    ],
)
async def test_no_text_makes_an_edit_slow(session: Session, data: str, old: str, new: str) -> None:
    (session.folder / "f").write_bytes(data.encode())
    with anyio.fail_after(10):
        await session.edit("f", old, new)
        await session.edit("f", old, new, replace_all=True)


async def test_very_many_places_are_not_replaced_at_once(session: Session) -> None:
    (session.folder / "f").write_text("a" * 200_000)
    output = await session.edit("f", "a", "b", replace_all=True)
    assert "more than 100000 times" in output.text
    assert "replace_all" not in output.text


async def test_a_file_that_was_never_read_is_not_edited(session: Session) -> None:
    (session.folder / "f").write_text("a")
    output = await session.call("edit_file", path="f", old_string="a", new_string="b")
    assert output.is_error
    assert "was not read in this session" in output.text
    await session.call("read_file", path="f")
    output = await session.call("edit_file", path="f", old_string="a", new_string="b")
    assert not output.is_error


async def test_a_file_changed_since_it_was_read_is_not_edited(session: Session) -> None:
    file = session.folder / "f"
    file.write_text("a")
    await session.call("read_file", path="f")
    file.write_text("a, and what someone else wrote")
    output = await session.call("edit_file", path="f", old_string="a,", new_string="b")
    assert output.is_error
    assert "changed since it was read" in output.text
    await session.call("read_file", path="f")
    assert not (await session.call("edit_file", path="f", old_string="a,", new_string="b")).is_error


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
async def test_what_was_read_counts_and_no_longer_what_was_written_before(
    session: Session, tool: str
) -> None:
    file = session.folder / "f"
    await session.call("write_file", path="f", content="mine")
    file.write_text("theirs")
    await session.call("read_file", path="f")
    file.write_text("mine")
    raw: dict[str, Any] = {"old_string": "mine", "new_string": "x"}
    output = await session.call(tool, path="f", **raw if tool == "edit_file" else {"content": "x"})
    assert "changed since it was read" in output.text
    assert file.read_text() == "mine"


async def test_what_a_cancelled_call_wrote_is_known(session: Session) -> None:
    await session.call("write_file", path="f", content="mine")
    session.stamps.clear()
    assert not (await session.call("write_file", path="f", content="again")).is_error


async def test_a_file_whose_name_is_no_text_is_known_after_a_restart(session: Session) -> None:
    for name in (b"caf\xe9", b"caf\xe8", "caf\ufffd".encode()):
        (session.folder / os.fsdecode(name)).write_bytes(name)
    (session.folder / "link").symlink_to(os.fsdecode(b"caf\xe9"))
    await session.call("read_file", path="link")
    recorded = {from_json(to_json(path)): digest for path, digest in session.stamps.items()}
    resumed = Session(session.folder, stamps=recorded)
    assert not (await resumed.call("edit_file", path="link", old_string="caf", new_string="tea")).is_error
    for other in (b"caf\xe8", "caf\ufffd".encode()):
        (session.folder / "link").unlink()
        (session.folder / "link").symlink_to(os.fsdecode(other))
        output = await resumed.call("edit_file", path="link", old_string="caf", new_string="tea")
        assert "not read in this session" in output.text


async def test_what_a_session_knows_outlives_its_worker(session: Session) -> None:
    (session.folder / "f").write_text("a")
    await session.call("read_file", path="f", start_line=1, end_line=1)
    resumed = Session(session.folder, stamps=dict(session.stamps))
    assert not (await resumed.call("edit_file", path="f", old_string="a", new_string="b")).is_error


async def test_a_change_of_a_large_file_is_noticed_without_reading_it(session: Session) -> None:
    file = session.folder / "f"
    file.write_bytes(b"x" * 9_000_000 + b"\nend\n")
    await session.call("read_file", path="f", start_line=2)
    times = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"y")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    output = await session.call("edit_file", path="f", old_string="end", new_string="END")
    assert "changed since it was read" in output.text
    assert not (await session.edit("f", "end", "END")).is_error
    assert not (await session.call("edit_file", path="f", old_string="END", new_string="fin")).is_error


async def test_edits_of_one_file_at_once_are_all_kept(session: Session) -> None:
    file = session.folder / "f"
    file.write_text("".join(f"line {i}.\n" for i in range(20)))
    (session.folder / "link").symlink_to("f")
    await session.call("read_file", path="f")
    async with anyio.create_task_group() as group:
        for i in random.sample(range(20), 20):
            path = "f" if i % 2 else "link"

            async def edit(i: int = i, path: str = path) -> None:
                output = await session.call(
                    "edit_file", path=path, old_string=f"line {i}.", new_string=f"done {i}."
                )
                assert not output.is_error, output.text

            group.start_soon(edit)
    assert file.read_text() == "".join(f"done {i}.\n" for i in range(20))


async def test_an_edit_that_is_cancelled_while_it_waits_leaves_the_file_alone(session: Session) -> None:
    file = session.folder / "f"
    file.write_text("a")
    await session.call("read_file", path="f")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await session.call("edit_file", path="f", old_string="a", new_string="b")
    assert file.read_text() == "a"
    assert not (await session.call("edit_file", path="f", old_string="a", new_string="b")).is_error


async def test_the_client_is_shown_the_whole_texts_of_a_small_file(session: Session) -> None:
    (session.folder / "f").write_text("a\nb\nc\n")
    output = await session.edit("f", "b", "x\ny")
    assert output.content == [
        {
            "type": "diff",
            "path": str(session.folder / "f"),
            "oldText": "a\nb\nc\n",
            "newText": "a\nx\ny\nc\n",
        }
    ]
    assert "+2 -1" in output.text
    assert (output.raw["added"], output.raw["removed"]) == (2, 1)


async def test_of_a_large_file_the_client_is_shown_the_changed_lines(session: Session) -> None:
    lines = [f"line {i}\n" for i in range(50_000)]
    (session.folder / "f").write_text("".join(lines))
    output = await session.edit("f", "line 30000\n", "other\n")
    diff, note = output.content
    assert diff["oldText"] == "".join(lines[29_995:30_006])
    assert diff["newText"] == diff["oldText"].replace("line 30000", "other")
    assert "only the changed lines" in note["content"]["text"]


async def test_a_diff_never_holds_what_json_cannot(session: Session) -> None:
    (session.folder / "g").write_bytes("äöü ".encode() + b"\xff a\n")
    output = await session.edit("g", "a", "b")
    assert output.content[0]["oldText"] == "äöü \\xff a\n"
    output.content[0]["newText"].encode()


async def test_a_preview_shows_the_diff_and_writes_nothing(session: Session) -> None:
    file = session.folder / "f"
    file.write_text("a")
    await session.call("read_file", path="f")
    diff = await session.preview("edit_file", path="f", old_string="a", new_string="b")
    assert [(d["oldText"], d["newText"]) for d in diff] == [("a", "b")]
    assert file.read_text() == "a"


async def test_a_preview_of_a_call_that_will_be_refused_is_empty(session: Session) -> None:
    (session.folder / "f").write_text("a")
    os.mkfifo(session.folder / "fifo")
    for path in ("f", "fifo", "none", ".", "/dev/zero", "/proc/self/mem", "x" * 4000):
        assert await session.preview("edit_file", path=path, old_string="a", new_string="b") == []
    await session.call("read_file", path="f")
    assert await session.preview("edit_file", path="f", old_string="b", new_string="c") == []


async def test_a_missing_file_is_not_edited_into_being(session: Session) -> None:
    output = await session.call("edit_file", path="none", old_string="a", new_string="b")
    assert "write_file" in output.text
    assert session.names() == []


@given(st.text("ab\n", max_size=12), st.text("ab\n", max_size=12))
def test_the_changed_region_is_whole_lines_and_nothing_else_differs(old: str, new: str) -> None:
    for region in region_between(old, new):
        assert old[: region.old_start] == new[: region.new_start]
        assert old[region.old_end :] == new[region.new_end :]
        assert region.old_start == 0 or old[region.old_start - 1] == "\n"


@given(st.text("ab\n", max_size=12), st.sampled_from(["a", "b", "ab", "a\n"]), st.text("x\n", max_size=3))
def test_regions_of_an_edit_cover_each_change_once(text: str, old: str, new: str) -> None:
    try:
        changes = replacements(text, old, new, everywhere=True)
    except ToolError:
        return
    after = spliced(text, changes)
    old_at = new_at = 0
    regions = regions_of(text, changes)
    for region in regions:
        assert text[old_at : region.old_start] == after[new_at : region.new_start]
        old_at, new_at = region.old_end, region.new_end
    assert text[old_at:] == after[new_at:]
    added, removed = count_changed(text, after, regions)
    assert added >= 0
    assert removed >= 0


@pytest.mark.parametrize(("old", "new", "told"), [("b", "b\r\nq", False), ("b\nc", "x\ny", True)])
async def test_line_ends_are_said_to_be_the_files_only_where_they_are(
    session: Session, old: str, new: str, told: bool
) -> None:
    (session.folder / "f").write_bytes(b"a\r\nb\r\nc\r\n" if told else b"a\nb\nc\n")
    await session.call("read_file", path="f")
    output = await session.call("edit_file", path="f", old_string=old, new_string=new)
    assert ("as those around them" in output.text) == told
