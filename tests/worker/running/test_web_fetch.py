"""web_fetch against real servers on loopback, which the tests' judge calls public."""

from __future__ import annotations

import gzip
import shutil
import socket
import ssl
import subprocess
import zlib
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest

from tests.worker.running.serving import Site, redirect, response, serving
from tests.worker.running.watching import alive
from worker import addresses, fetching, page_text
from worker.fetching import Fetcher, resolve
from worker.tools.base import ToolContext, ToolError, ToolOutput
from worker.tools.web_fetch import WebFetch, WebFetchInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from anyio.abc import ByteStream

    from worker.tools.processes import Processes

    Fetch = Callable[..., Awaitable[ToolOutput]]

pytestmark = pytest.mark.anyio

TRUST = ssl.create_default_context()
"""Made once, since it takes a while."""
NAMES = {
    "page.test": ["127.0.0.1"],
    "inner.test": ["127.0.0.2"],
    "metadata.test": ["169.254.169.254"],
    "half.test": ["127.0.0.1", "10.0.0.1"],
    "second.test": ["127.0.0.3", "127.0.0.1"],
}


def judge(address: str) -> str | None:
    """Loopback addresses but 127.0.0.2 pass for public."""
    return None if address in ("127.0.0.1", "127.0.0.3") else addresses.judge(address)


async def look_up(host: str, port: int) -> list[str]:
    return NAMES[host] if host in NAMES else await resolve(host, port)


@pytest.fixture
async def site(processes: Processes) -> AsyncIterator[Site]:
    """Gone before descriptors are counted."""
    async with serving() as made:
        yield made


@pytest.fixture
def fetch(site: Site, context: Callable[..., ToolContext]) -> Fetch:
    """Fetches a path of the site, or a URL in which PORT stands for its port."""

    async def run(
        url: str, *, tool: WebFetch | None = None, private: bool = False, **given: Any
    ) -> ToolOutput:
        if url.startswith("/"):
            url = f"http://page.test:PORT{url}"
        fetching_tool = tool or WebFetch(Fetcher(judge, look_up, TRUST))
        made = context(allow_private_addresses=private)
        with anyio.fail_after(40):
            return await fetching_tool.run(
                WebFetchInput(url=url.replace("PORT", str(site.port)), **given), made
            )

    return run


async def test_a_page_comes_as_markdown(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = response(b"<title>T</title><h1>Hi</h1><a href=x>l</a>", "text/html")
    output = await fetch("/")
    assert output.text == f"[title: T]\n# Hi\n\n[l](http://page.test:{site.port}/x)\n"
    assert not output.is_error
    assert output.raw == {"url": f"http://page.test:{site.port}/", "status": 200, "type": "text/html"}
    assert f"Host: page.test:{site.port}\r\n" in site.seen[0]


async def test_other_text_comes_as_it_is(site: Site, fetch: Fetch) -> None:
    site.routes["/t"] = response("é <b>".encode("latin-1"), "text/plain; charset=iso-8859-1")
    site.routes["/j"] = response(b'{"a": 1}', "application/json")
    assert (await fetch("/t")).text == "é <b>"
    assert (await fetch("/j")).text == '{"a": 1}'


@pytest.mark.parametrize(
    "kind", ["image/png", "application/pdf", "application/zip", "application/octet-stream"]
)
async def test_what_is_no_text_is_named(site: Site, fetch: Fetch, kind: str) -> None:
    site.routes["/"] = response(b"\x89\0\xff" * 100, kind)
    text = (await fetch("/")).text
    assert kind in text
    assert "300 bytes" in text
    assert "\x89" not in text


async def test_a_failure_of_the_server_is_one_and_shows_its_page(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = response(b"not here", status="404 Not Found")
    output = await fetch("/")
    assert output.is_error
    assert output.text == "[HTTP status 404 Not Found]\nnot here"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.2:PORT/",
        "http://127.2:PORT/",
        "http://2130706434:PORT/",
        "http://0x7f000002:PORT/",
        "http://[::ffff:127.0.0.2]:PORT/",
        "http://[::1]:PORT/",
        "http://[64:ff9b::7f00:2]/",
        "http://[2002:7f00:2::]/",
        "http://0.0.0.0:PORT/",
        "http://localhost:PORT/",
        "http://inner.test:PORT/",
        "http://metadata.test/latest/meta-data",
        "http://half.test:PORT/",
        "http://169.254.169.254/",
    ],
)
async def test_only_public_addresses_are_reached_unasked(site: Site, fetch: Fetch, url: str) -> None:
    strict = WebFetch(Fetcher(addresses.judge, look_up, TRUST))
    with pytest.raises(ToolError, match="not a public address"):
        await fetch(url, tool=strict)
    crossed = await strict.crosses(WebFetchInput(url=url.replace("PORT", str(site.port))))
    assert crossed is not None
    assert "not a public address" in crossed
    assert site.seen == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://page.test/",
        "gopher://page.test/",
        "javascript:alert(1)",
        "page.test/x",
        "http://user@page.test:PORT/",
        "http://user:password@page.test:PORT/",
        "http://@page.test:PORT/",
        "http://127.0.0.2%2f@page.test:PORT/",
        "http:///x",
        "http://page.test:99999/",
        "http://[::1/",
        "http://0177.0.0.2:PORT/",
        "http://a b/",
        "http://page.test%2f/",
        "http://page.test:PORT/\x07",
        "http://[fe80::1%25lo]:PORT/",
    ],
)
async def test_other_urls_are_refused(site: Site, fetch: Fetch, url: str) -> None:
    with pytest.raises(ToolError):
        await fetch(url)
    assert site.seen == []
    assert await WebFetch(Fetcher(judge, look_up, TRUST)).crosses(WebFetchInput(url=url)) is None


async def test_a_private_address_is_reached_when_the_user_agreed(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = response(b"inside")
    strict = WebFetch(Fetcher(addresses.judge, look_up, TRUST))
    assert (await fetch("/", tool=strict, private=True)).text == "inside"
    assert (
        await WebFetch(Fetcher(judge, look_up, TRUST)).crosses(WebFetchInput(url="http://page.test/")) is None
    )


async def test_redirects_are_followed_and_told(site: Site, fetch: Fetch) -> None:
    site.routes |= {
        "/a": redirect("/b"),
        "/b": redirect(f"//page.test:{site.port}/c"),
        "/c": response(b"end"),
    }
    assert (await fetch("/a")).text == f"[from http://page.test:{site.port}/c]\nend"


async def test_eleven_redirects_are_too_many(site: Site, fetch: Fetch) -> None:
    site.routes |= {f"/{n}": redirect(f"/{n + 1}") for n in range(20)}
    site.routes["/19"] = response(b"end")
    assert (await fetch("/9")).text.endswith("end")
    with pytest.raises(ToolError, match="redirects more than 10 times"):
        await fetch("/8")


@pytest.mark.parametrize(
    "location", ["http://127.0.0.2:PORT/x", "http://inner.test:PORT/x", "http://metadata.test/"]
)
@pytest.mark.parametrize("private", [False, True])
async def test_a_redirect_to_a_private_address_is_not_followed(
    site: Site, fetch: Fetch, location: str, private: bool
) -> None:
    location = location.replace("PORT", str(site.port))
    site.routes |= {"/": redirect(location), "/x": response(b"secret")}
    with pytest.raises(ToolError, match=r"redirects to .* fetch .* itself"):
        await fetch("/", private=private)
    assert len(site.seen) == 1


async def test_a_redirect_within_a_permitted_private_site_is_followed(site: Site, fetch: Fetch) -> None:
    site.routes |= {"/": redirect("/x"), "/x": response(b"inside")}
    strict = WebFetch(Fetcher(addresses.judge, look_up, TRUST))
    assert (await fetch("/", tool=strict, private=True)).text.endswith("inside")


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://user:pw@page.test/", "http://[bad"])
async def test_a_redirect_to_what_is_not_fetched_is_refused(site: Site, fetch: Fetch, location: str) -> None:
    site.routes["/"] = redirect(location)
    with pytest.raises(ToolError, match="redirects to what is not fetched"):
        await fetch("/")


async def test_a_name_that_changes_its_address_is_connected_where_it_was_judged(
    site: Site, fetch: Fetch
) -> None:
    site.routes["/"] = response(b"judged")
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    tool = WebFetch(Fetcher(judge, rebinding, TRUST))
    assert (await fetch("/", tool=tool)).text == "judged"
    assert asked == ["page.test"]
    with pytest.raises(ToolError, match="not a public address"):
        await fetch("/", tool=tool)


async def test_the_next_address_is_tried_when_one_refuses(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = response(b"here")
    assert (await fetch("http://second.test:PORT/")).text == "here"


async def test_a_proxy_in_the_environment_is_not_used(
    site: Site, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.routes["/"] = response(b"direct")
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await fetch("/")).text == "direct"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Of page.test, self-signed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate")
    key, made = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        [
            *(
                openssl,
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=page.test",
            ),
            *("-addext", "subjectAltName=DNS:page.test", "-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return key, made


async def test_tls_names_and_verifies_the_host_not_the_address(
    certificate: tuple[Path, Path], context: Callable[..., ToolContext]
) -> None:
    key, made = certificate
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made, key)
    names: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    trusting = ssl.create_default_context(cafile=str(made))
    NAMES["other.test"] = ["127.0.0.1"]
    async with serving(tls=server) as site:
        site.routes["/"] = response(b"safe")
        tool = WebFetch(Fetcher(judge, look_up, trusting))
        output = await tool.run(WebFetchInput(url=f"https://page.test:{site.port}/"), context())
        assert output.text == "safe"
        assert names == ["page.test"]
        with pytest.raises(ToolError, match=r"(?i)certificate"):
            await tool.run(WebFetchInput(url=f"https://other.test:{site.port}/"), context())
        with pytest.raises(ToolError, match=r"(?i)certificate"):
            await WebFetch(Fetcher(judge, look_up)).run(
                WebFetchInput(url=f"https://page.test:{site.port}/"), context()
            )


def _endless(head: str, piece: bytes) -> Callable[[ByteStream], Awaitable[None]]:
    async def answer(stream: ByteStream) -> None:
        await stream.send(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
        while True:
            await stream.send(piece)

    return answer


async def test_an_endless_body_is_cut(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = _endless("Content-Type: text/plain\r\n", b"0123456789abcdef" * 4096)
    process = psutil.Process()
    before = process.memory_info().rss
    output = await fetch("/", max_length=100)
    assert output.text.startswith("0123456789abcdef")
    assert "[truncated: the first 100 of" in output.text
    assert "not whole: it is cut at 10 MiB" in output.text
    assert process.memory_info().rss - before < 100 * 2**20


@pytest.mark.parametrize("coding", ["gzip", "deflate", "gzip, gzip"])
async def test_a_bomb_is_cut_while_it_unpacks(site: Site, fetch: Fetch, coding: str) -> None:
    zeros = b"a" * 2**20
    if coding == "deflate":
        body = zlib.compress(zeros * 100)
    else:
        packer = zlib.compressobj(wbits=31)
        body = b"".join([*(packer.compress(zeros) for _ in range(100)), packer.flush()])
        if coding != "gzip":
            body = gzip.compress(body)
    site.routes["/"] = response(body, more=f"Content-Encoding: {coding}\r\n")
    process = psutil.Process()
    before = process.memory_info().rss
    output = await fetch("/", max_length=10)
    assert "cut at 20 MiB after decompression" in output.text
    assert process.memory_info().rss - before < 150 * 2**20


async def test_a_coding_that_was_not_asked_for_is_named(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = response(b"\x1b\x2f", more="Content-Encoding: br\r\n")
    assert "encoded as br" in (await fetch("/")).text


async def test_a_server_that_does_not_answer_costs_its_time_only(
    site: Site, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.4)

    async def silent(stream: ByteStream) -> None:
        await anyio.sleep_forever()

    async def dripping(stream: ByteStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await stream.send(b"x")
            await anyio.sleep(0.02)

    site.routes |= {"/silent": silent, "/dripping": dripping}
    with pytest.raises(ToolError, match=r"did not answer|cannot be fetched"):
        await fetch("/silent")
    output = await fetch("/dripping")
    assert output.text.startswith("x")
    assert "what came within 0.4 s" in output.text


async def test_a_transfer_that_breaks_keeps_what_came(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nsome"
    text = (await fetch("/")).text
    assert text.startswith("some\n[The page is not whole:")


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 500_000])
async def test_what_is_no_http_is_an_error(site: Site, fetch: Fetch, answer: bytes) -> None:
    site.routes["/"] = answer
    with pytest.raises(ToolError, match="cannot be fetched"):
        await fetch("/")


async def test_nobody_there_and_no_such_name_are_errors(fetch: Fetch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ToolError, match="cannot be fetched"):
        await fetch(f"http://page.test:{port}/")
    with pytest.raises(ToolError, match="is not known"):
        await fetch("http://a..b/")


@pytest.mark.parametrize(
    "page",
    ["<div>" * 100_000 + "deepest", "<table><tr><td>" * 2000 + "deepest", "<b><i>" * 50_000 + "deepest"],
)
async def test_a_deep_page_is_read_as_plain_text(site: Site, fetch: Fetch, page: str) -> None:
    site.routes["/"] = response(page.encode(), "text/html")
    assert "deepest" in (await fetch("/")).text


async def test_cancel_ends_the_conversion_too(
    site: Site, fetch: Fetch, context: Callable[..., ToolContext]
) -> None:
    site.routes["/slow"] = response(b"<a><b>" * 1_500_000, "text/html")
    with anyio.move_on_after(1):
        await fetch("/slow")
    with anyio.fail_after(5):
        await context().processes.settle()
    assert alive(page_text.__file__) == []


async def test_max_length_counts_characters_of_the_result(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = response(("<p>é</p>" * 1000).encode(), "text/html")
    text = (await fetch("/", max_length=50)).text
    shown, _, marker = text.partition("\n[truncated")
    assert len(shown) == 50
    assert "the first 50 of" in marker
