"""An edit is made in a file's bytes; what it finds and changes is what it would find in the file's text."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.files.changing import Source, _planned
from worker.files.decoding import detect
from worker.tools.base import ToolError
from worker.tools.edit_file import EditFileInput, _plan

# Characters whose bytes begin, end and continue alike, and bytes that are no character's, or half of one.
_WHOLE = ["a", "b", "é", "è", "ã", "©", "€", "終", "🔑", "\r", " "]
_PIECES = [*(text.encode() for text in _WHOLE), b"\xc3", b"\xa9", b"\xe2\x82", b"\xf0\x9f", b"\x81", b"\xff"]

files = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=30).map(b"".join)
texts = st.lists(st.sampled_from(_WHOLE), min_size=1, max_size=3).map("".join)


@given(files, texts, texts)
def test_the_bytes_are_those_of_the_text_with_the_strings_replaced(data: bytes, old: str, new: str) -> None:
    encoding = detect(data)
    assert encoding is not None
    text = encoding.decode(data)
    source = Source(data, encoding)
    args = EditFileInput(path="f", old_string=old, new_string=new, replace_all=True)
    if old == new or old not in text:
        return
    try:
        wanted = encoding.encode(text.replace(old, new))
    except UnicodeEncodeError:
        with pytest.raises(ToolError, match="which has no"):
            _planned(partial(_plan, args), source)
        return
    change, changed = _planned(partial(_plan, args), source)
    assert changed == wanted
    assert change.text.encode(change.encoding.codec) == wanted.removeprefix(encoding.bom)


@given(files, texts)
def test_a_string_that_is_not_in_the_text_is_not_found_in_the_bytes(data: bytes, old: str) -> None:
    encoding = detect(data)
    assert encoding is not None
    readings = [data.decode(codec, "surrogateescape") for codec in ("utf-8", "cp1252", "latin-1")]
    if any(old in reading for reading in readings):
        return
    with pytest.raises(ToolError, match="does not occur"):
        _plan(EditFileInput(path="f", old_string=old, new_string=old + "x"), Source(data, encoding))


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("größer\n".encode(), "utf-8"),
        ("größer\n".encode("latin-1"), "cp1252"),
        (b"gr\xf6\x81er\n", "latin-1"),
        ("größer, größer\n".encode() + b"\xff", "utf-8"),
    ],
)
def test_the_diff_is_shown_as_text(data: bytes, encoding: str) -> None:
    source = Source(data, detect(data))
    assert source.encoding is not None
    assert source.encoding.codec == encoding
    change = _plan(EditFileInput(path="f", old_string="gr", new_string="Gr", replace_all=True), source)
    (shown,) = change.diff(Path("/f"), created=False)
    assert shown["oldText"].startswith("grö")
    assert shown["newText"].startswith("Grö")


def test_a_character_cut_in_two_by_a_piece_is_still_one() -> None:
    assert detect(b"x" * (2**16 - 1) + "é".encode()) == detect(b"x")
    assert detect(b"x" * (2**16 - 1) + b"\xc3") != detect(b"x")


@pytest.mark.parametrize("lines", [1000, 20_000])
def test_a_diff_is_text_whatever_the_size(lines: int) -> None:
    data = ("größer 終\n" * lines + "Ende\n").encode()
    plan = partial(_plan, EditFileInput(path="f", old_string="Ende", new_string="Schluß"))
    change, changed = _planned(plan, Source(data, detect(data)))
    assert changed == data.replace(b"Ende", "Schluß".encode())
    shown, *notes = change.diff(Path("/f"), created=False)
    assert shown["oldText"].endswith("größer 終\nEnde\n")
    assert shown["newText"].endswith("größer 終\nSchluß\n")
    assert bool(notes) == (lines > 1000)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    data = b"\xef\xbb\xbf" + "größer\n".encode()
    source = Source(data, detect(data))
    with pytest.raises(ToolError, match="does not occur"):
        _plan(EditFileInput(path="f", old_string="\ufeffgr", new_string="x"), source)
    change, changed = _planned(
        partial(_plan, EditFileInput(path="f", old_string="gr", new_string="Gr")), source
    )
    assert changed == b"\xef\xbb\xbf" + "Größer\n".encode()
    assert change.diff(Path("/f"), created=False)[0]["oldText"] == "größer\n"


def test_characters_are_counted_not_octets_where_a_file_is_shown_whole() -> None:
    data = ("終" * 79 + "\n").encode() * 500 + b"end\n"
    change = _plan(EditFileInput(path="f", old_string="end", new_string="END"), Source(data, detect(data)))
    (shown,) = change.diff(Path("/f"), created=False)
    assert shown["oldText"] == data.decode()
