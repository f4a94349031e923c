"""Output made readable, and bounded. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.capture import SPILL_LIMIT, Capture, spill_path
from worker.output import Cleaner, HeadTail

if TYPE_CHECKING:
    from pathlib import Path


def cleaned(*pieces: bytes) -> str:
    cleaner = Cleaner()
    return "".join(cleaner.feed(piece) for piece in pieces) + cleaner.finish()


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"\x1b[31mred\x1b[0m \x1b[1;38;5;9mbold\x1b[m\n", "red bold\n"),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "alink\n"),
        (b"\x1b(Bplain\x1b7\x1b=\x1b>x\x1b8\n", "plainx\n"),
        (b" 1%\r 50%\r100%\n", "100%\n"),
        (b" 1%\r 50%\r100%\r", "100%"),
        (b"a\r\nb\r\r\nc\r\n", "a\nb\nc\n"),
        (b"a\0b\x07\x7f\n", "a␀b␇␡\n"),
        (b"caf\xc3\xa9 \xff\xfe \xe9\n", "café \ufffd\ufffd \ufffd\n"),
        (b"|\x08/\x08-\x08done\n", "done\n"),
        (b"\xc2\x9b31mred \xc2\x85\n", "red \ufffd\n"),
        (b"no newline", "no newline"),
        (b"unfinished \x1b[3", "unfinished ␛[3"),
        (b" 1%\r\x1b[3", "␛[3"),
        (b"\x1b]0;a title\nof two lines\x07a\n", "a\n"),
        (b"\x1b]0;a title without end\na\n", "␛]0;a title without end\na\n"),
    ],
)
def test_output_is_shown_as_a_terminal_would_leave_it(output: bytes, text: str) -> None:
    assert cleaned(output) == text


# fmt: off
_PARTS = (
    b"a", b"\r", b"\n", b"\0", b"\xff", b"\xc2", b"\xc3\xa9", b"\xc2\x85", b"\x1b", b"\x1b]", b"\x1b_G",
    b"\x1b[1m", b"\xc2\x9b1m", b"\x1b(B", b"\x1b7", b"\x1b]0;t\x07", b"\x1b]8;;x\x1b\\", b"\x1bP1q~\x1b\\",
)
# fmt: on


@given(st.lists(st.sampled_from(_PARTS)), st.data())
def test_output_reads_the_same_in_whatever_pieces_it_comes(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    first, second = sorted(data.draw(st.integers(0, len(whole))) for _ in range(2))
    assert cleaned(whole[:first], whole[first:second], whole[second:]) == cleaned(whole)


@pytest.mark.parametrize("size", [1, 100, 5000, 1_000_000])
@pytest.mark.parametrize(
    "sequence",
    [
        b"\x1b]1337;File=inline=1:%s\x07" % (b"QUJD" * 30_000),
        b"\x1b]1337;File=inline=1:%s\x1b\\" % (b"QUJD" * 19 + b"\n") * 500,
        b"\x1bP0;1q%s\x1b\\" % ((b"#0" + b"~" * 200 + b"-\n") * 200),
        b"\x1b_Gf=100;%s\x1b\\" % (b"QUJD" * 2000),
        b"\x1b]52;c;%s\x07" % (b"QUJD" * 2000),
    ],
    ids=["iterm", "iterm-lines", "sixel", "kitty", "clipboard"],
)
def test_an_image_in_the_output_is_not_shown_as_its_bytes(sequence: bytes, size: int) -> None:
    output = b"before\n" + sequence + b"after\x1b[1m!\n"
    assert cleaned(*(output[at : at + size] for at in range(0, len(output), size))) == "before\nafter!\n"


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("next_line", [b"\nthe next line\n", b"\x1b[1m\nthe next line\n"])
def test_a_long_string_without_end_costs_no_other_line(size: int, next_line: bytes) -> None:
    output = b"\x1b]0;start" + b"x" * 9000 + next_line
    text = cleaned(*(output[at : at + size] for at in range(0, len(output), size)))
    assert text.startswith("␛]0;startxxx")
    assert text.endswith(" characters left out of an escape sequence without end]\nthe next line\n")


@pytest.mark.parametrize("size", [1, 1000, 1_000_000])
@pytest.mark.parametrize("start", [b"\x1b_Gf=100;AAAA", b"\x1bP1;2q~~", b"\x1b]1337;File=inline=1:QUJD"])
def test_an_image_that_is_cut_off_costs_no_text_after_it(size: int, start: bytes) -> None:
    after = b"".join(b"\nline %d of a log" % n for n in range(2_000))
    output = start + after
    text = cleaned(*(output[at : at + size] for at in range(0, len(output), size)))
    assert text.endswith(after.decode())


def test_an_image_without_end_is_not_awaited_for_ever() -> None:
    pieces = [b"\x1b]1337;File=inline=1:", *[b"QUJD" * 250_000] * 18, b"\nthe next line\n"]
    text = cleaned(*pieces)
    assert text.startswith("␛]1337;File=inline=1:QUJD")
    assert text.endswith("QUJD\nthe next line\n")
    assert len(text) < 3_000_000
    assert "left out of an escape sequence without end" in cleaned(*pieces[:10])


@given(st.lists(st.binary(max_size=200)))
def test_any_bytes_become_text_that_utf8_can_hold(pieces: list[bytes]) -> None:
    text = cleaned(*pieces)
    text.encode()
    assert not any(ord(c) < 32 and c not in "\t\n\r" for c in text)


@given(st.lists(st.text(max_size=30)), st.integers(0, 40), st.integers(1, 40))
def test_head_and_tail_account_for_every_character(pieces: list[str], head: int, tail: int) -> None:
    whole = "".join(pieces)
    kept = HeadTail(head, tail)
    for piece in pieces:
        kept.add(piece)
    if len(whole) <= head + tail:
        assert kept.text() == whole
    else:
        marker = f"\n\n[{len(whole) - head - tail:,} characters left out]\n\n"
        assert kept.text() == whole[:head] + marker + whole[-tail:]


@pytest.mark.anyio
async def test_a_long_output_is_whole_in_its_file(tmp_path: Path) -> None:
    path = spill_path(tmp_path, "call")
    capture = Capture(path)
    whole = "".join(f"line {i}\n" for i in range(20_000))
    for at in range(0, len(whole), 7000):
        await capture.feed(whole[at : at + 7000].encode())
    await capture.finish()
    assert path.read_text() == whole
    assert path.stat().st_mode & 0o777 == 0o600
    text = capture.text()
    assert len(text) < 31_000
    assert text.startswith("line 0\n")
    assert text.endswith("line 19999\n")
    assert str(path) in text


@pytest.mark.anyio
async def test_an_output_above_the_cap_keeps_its_real_end(tmp_path: Path) -> None:
    capture = Capture(spill_path(tmp_path, "call"))
    line = b"x" * 1023 + b"\n"
    for _ in range(SPILL_LIMIT // (1 << 20) + 2):
        await capture.feed(line * 1024)
    await capture.feed(b"the end\n")
    await capture.finish()
    assert capture.path.stat().st_size == SPILL_LIMIT
    assert capture.text().endswith("the end\n")
    assert f"the first {SPILL_LIMIT >> 20} MiB are in {capture.path}" in capture.text()


@pytest.mark.anyio
async def test_a_file_that_cannot_be_written_costs_nothing_but_the_file(tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("in the way")
    capture = Capture(spill_path(tmp_path, "call"))
    await capture.feed(b"x" * 100_000)
    await capture.finish()
    assert "could not be kept" in capture.text()


@pytest.mark.parametrize("call_id", ["../../escape", "a/b", "", "x" * 300, "a\0b", "\ud800"])
def test_a_call_id_never_leads_out_of_the_spill_folder(tmp_path: Path, call_id: str) -> None:
    path = spill_path(tmp_path, call_id)
    assert path.parent == tmp_path / "spill"
    assert len(path.name) < 120
