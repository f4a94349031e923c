"""HTML as Markdown, or as plain text. Run as a program of its own, so that a page cannot hang the worker.

    python -I page_text.py markdown|text CHARSET BASE_URL LIMIT < page

prints a JSON line `{"total": characters, "title": …}` and the first LIMIT characters. It holds itself to
`CPU_SECONDS`. It must import nothing of ours, since it is run by its path.
"""

from __future__ import annotations

import html
import json
import re
import resource
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU_SECONDS: Final = 10
DEEPEST: Final = 900
"""html-to-markdown 3.21 drops without a word what lies over about 1,000 elements deep."""

_MEMORY: Final = 2 * 1024**3
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
# What stands in these is no text of the page; each with what ends it.
_RAW: Final = {
    name: re.compile(f"</{name}", re.IGNORECASE)
    for name in ("script", "style", "noscript", "template", "textarea", "title", "iframe", "svg")
}
_VOID: Final = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
}
# Elements whose end tag may be left out do not nest by themselves: they count with what they stand in.
_IMPLIED: Final = {
    *("p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup"),
}
_LEVELS: Final = {"ul": 2, "ol": 2, "dl": 2, "table": 4}
_LINES: Final = _IMPLIED | {
    *("address", "article", "aside", "blockquote", "br", "div", "dl", "fieldset", "figcaption", "figure"),
    *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "pre"),
    *("section", "table", "ul"),
}


def tokens(page: str) -> Iterator[tuple[str, str]]:
    """Pairs of kind and value: `text`, `open` and `close` with a lower-case name, `title` with its text.

    Linear in the page's length, also where nothing is closed. Comments, scripts and the like are left out.
    """
    at = 0
    while at < len(page):
        opening = page.find("<", at)
        if opening < 0:
            yield "text", page[at:]
            return
        if opening > at:
            yield "text", page[at:opening]
        if page.startswith("<!--", opening):
            at = _after(page, "-->", opening + 4)
            continue
        if page.startswith(("<!", "<?"), opening):
            at = _after(page, ">", opening)
            continue
        tag = _TAG.match(page, opening)
        if tag is None:
            yield "text", "<"
            at = opening + 1
            continue
        name = tag[2].lower()
        yield ("close" if tag[1] else "open"), name
        at = _after(page, ">", tag.end())
        if name in _RAW and not tag[1] and page[at - 2 : at] != "/>":
            closing = _RAW[name].search(page, at)
            end = closing.start() if closing else len(page)
            if name == "title":
                yield "title", page[at:end]
            at = end


def _after(page: str, mark: str, start: int) -> int:
    found = page.find(mark, start)
    return len(page) if found < 0 else found + len(mark)


def depth(page: str) -> int:
    """About how many elements deep the page nests at its deepest."""
    opened: list[str] = []
    number: dict[str, int] = {}
    level = deepest = 0
    for kind, name in tokens(page):
        if kind == "open" and name not in _VOID and name not in _IMPLIED:
            opened.append(name)
            number[name] = number.get(name, 0) + 1
            level += _LEVELS.get(name, 1)
            deepest = max(deepest, level)
        elif kind == "close" and number.get(name):
            last = ""
            while last != name:
                last = opened.pop()
                number[last] -= 1
                level -= _LEVELS.get(last, 1)
    return deepest


def title_of(page: str) -> str:
    """The text of the first title element, on one line."""
    found = next((value for kind, value in tokens(page[:200_000]) if kind == "title"), "")
    return " ".join(html.unescape(found).split())[:300]


def plain(page: str) -> str:
    """The page's text, a block a line, without markup."""
    pieces = []
    for kind, value in tokens(page):
        if kind == "text":
            pieces.append(re.sub(r"\s+", " ", html.unescape(value)))
        elif kind != "title" and value in _LINES and value not in ("td", "th"):
            pieces.append("\n")
    lines = (line.strip() for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def markdown(page: str, base_url: str) -> str:
    """The page as Markdown with absolute links; plain text for one that nests too deep."""
    if depth(page) > DEEPEST:
        return plain(page)
    from html_to_markdown import ConversionOptions, convert

    options = ConversionOptions(extract_metadata=False, base_url=base_url, inline_data_media="alt_text_only")
    return convert(page, options).content or ""


def main() -> None:
    """See the module."""
    mode, charset, base_url, limit = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    page = sys.stdin.buffer.read().decode(charset, "replace")
    text = markdown(page, base_url) if mode == "markdown" else plain(page)
    head = json.dumps({"total": len(text), "title": title_of(page)})
    sys.stdout.buffer.write(f"{head}\n{text[: int(limit)]}".encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
