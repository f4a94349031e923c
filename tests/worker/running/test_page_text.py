"""HTML as text, and what a response holds. Pure."""

from __future__ import annotations

import time

import pytest

from worker.page_kinds import charset_of, kind_of, media_type
from worker.page_text import depth, markdown, plain, title_of

PAGE = """<!doctype html><html><head><title>A &amp; <b>\n title</title><style>p { x }</style></head>
<body><!-- <div> no --><h1>Head</h1><p>one <a href="/two">two</a><br>three<script>bad("<p>")</script>
<table><tr><td>a</td><td>b</td></tr></table><ul><li>x<li>y</ul><pre>  code</pre></body></html>"""


def test_a_page_becomes_markdown_with_whole_links() -> None:
    text = markdown(PAGE, "https://host.test/dir/page")
    assert "# Head" in text
    assert "[two](https://host.test/two)" in text
    assert "bad(" not in text
    assert "- x" in text


def test_a_page_becomes_plain_text() -> None:
    lines = plain(PAGE).splitlines()
    assert lines[:3] == ["Head", "one two", "three"]
    assert lines[-3:] == ["x", "y", "code"]
    assert "bad" not in plain(PAGE)


def test_the_title_is_one_line() -> None:
    assert title_of(PAGE) == "A & <b> title"
    assert title_of("<p>none") == ""


@pytest.mark.parametrize("element", ["div", "span", "blockquote", "ul><li", "table><tr><td", "b"])
@pytest.mark.parametrize("levels", [5, 250, 2000, 50_000])
def test_text_is_found_however_deep_it_lies(element: str, levels: int) -> None:
    page = f"<p>before</p>{f'<{element}>' * levels}the deepest<p>after</p>"
    text = markdown(page, "https://host.test/")
    assert "before" in text
    assert "the deepest" in text
    assert "after" in text


def test_a_flat_page_of_unclosed_elements_is_not_deep() -> None:
    assert depth("<p>x<br><li>y<td>z" * 5000) < 10
    assert depth("<div><p>x</div>" * 5000) < 10


@pytest.mark.parametrize(
    "piece",
    ["<", "<!--", "<a ", "<script>", "<title>", "<a href='>", "</", "<!", "&", "<svg", "<p>" * 3, "\r \t"],
)
def test_no_page_takes_more_than_linear_time(piece: str) -> None:
    started = time.process_time()
    page = piece * (300_000 // len(piece))
    plain(page)
    depth(page)
    title_of(page)
    assert time.process_time() - started < 10  # quadratic: hours


@pytest.mark.parametrize(
    ("header", "body", "kind"),
    [
        ("text/html; charset=utf-8", b"<p>", "html"),
        ("application/xhtml+xml", b"<p>", "html"),
        ("", b"  <!DOCTYPE html><p>", "html"),
        ("application/octet-stream", b"<html>", "html"),
        ("text/plain", b"<html>", "text"),
        ("application/json", b"{}", "text"),
        ("application/vnd.api+json", b"{}", "text"),
        ("image/svg+xml", b"<svg/>", "text"),
        ("application/octet-stream", b"plain words", "text"),
        ("application/octet-stream", "cut é".encode()[:-1], "text"),
        ("application/octet-stream", b"\x89PNG\r\n", "other"),
        ("text/plain", b"a\0b", "other"),
        ("text/plain; charset=utf-16", "hi".encode("utf-16"), "text"),
        ("text/plain", "hi".encode("utf-16"), "text"),
        ("application/pdf", b"%PDF-1.7 words", "other"),
        ("image/png", b"", "other"),
        ("no type at all;;;", b"words", "text"),
    ],
)
def test_what_a_body_is(header: str, body: bytes, kind: str) -> None:
    assert kind_of(*media_type(header), body) == kind


@pytest.mark.parametrize(
    ("charset", "body", "codec"),
    [
        ("koi8-r", b"<meta charset=utf-8>", "koi8-r"),
        ("", b"<meta charset='shift_jis'>", "shift_jis"),
        ("", b'<meta http-equiv=Content-Type content="text/html; charset=windows-1251">', "cp1251"),
        ("", b"<p>", "utf-8"),
        ("no-such-charset", b"<meta charset=euc-kr>", "euc_kr"),
        ("punycode", b"<p>", "utf-8"),
        ("unicode_escape", b"<p>", "utf-8"),
        ("hex", b"<p>", "utf-8"),
        ("\xff", b"<p>", "utf-8"),
        ("iso-8859-1", b"<p>", "cp1252"),
        ("", b"\xef\xbb\xbf<p>", "utf-8-sig"),
        ("", b"\xff\xfe<\0", "utf-16"),
        ("", b"<meta charset=utf-16>", "utf-8"),
    ],
)
def test_the_charset_is_by_header_then_mark_then_meta_then_utf8(
    charset: str, body: bytes, codec: str
) -> None:
    assert charset_of(charset, body, markup=True) == codec
