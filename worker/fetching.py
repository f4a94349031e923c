"""Fetching a page from public addresses only, within budgets of time, bytes and redirects.

Names are resolved once for each hop; every address found is judged, and the connection goes to one that
was judged, so that a name cannot lead elsewhere between check and connect. Proxies, credentials and
certificates named in the environment are not used: a proxy would resolve the name once more, unjudged.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
import httpx2 as httpx
from anyio import to_thread

from worker import addresses
from worker.page_kinds import media_type, never_text
from worker.tools.base import ToolError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

SECONDS: Final = 30.0
REDIRECTS: Final = 10
OCTETS: Final = 10 * 2**20
"""Of a body as it comes."""
DECODED: Final = 20 * 2**20
"""Of a body after decompression."""

_AUTHORITY: Final = re.compile(r"[^/]*//([^/?#]*).*", re.DOTALL)
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_PORTS: Final = {"http": 80, "https": 443}
_HEADERS: Final = {
    "User-Agent": "iac-code web_fetch",
    "Accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
_CODINGS: Final = frozenset({"gzip", "deflate", "identity"})


@dataclass(frozen=True, slots=True)
class Page:
    """A response. `cut` says why its body is not whole; `size` is the body's, if it was told or read."""

    url: str
    status: str
    kind: str
    charset: str
    body: bytes
    size: int | None
    cut: str = ""
    coding: str = ""
    """A content coding that was not asked for, so the body was not read."""

    @property
    def failed(self) -> bool:
        """The server says that this is not what was asked for."""
        return not self.status.startswith("2")


async def resolve(host: str, port: int) -> list[str]:
    """Addresses as the system finds them, which reads decimal, hexadecimal and short forms too."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Fetcher:
    """Fetches. What judges addresses, resolves names and verifies certificates can be replaced."""

    def __init__(
        self,
        judge: Callable[[str], str | None] = addresses.judge,
        resolve: Callable[[str, int], Awaitable[list[str]]] = resolve,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._judge = judge
        self._resolve = resolve
        self._certificates = certificates

    async def private(self, address: str) -> str | None:
        """What is not public about a URL's host, as a phrase; None where all is, or nothing is known."""
        url = parse(address)
        try:
            with anyio.fail_after(SECONDS):
                found = await self._addresses(url)
        except (ToolError, TimeoutError):
            # The fetch itself will meet the same and say so.
            return None
        return self._reason(url, found)

    async def fetch(self, address: str, *, allow_private: bool) -> Page:
        """Get a page. `allow_private` holds for the host and port of `address` alone.

        Raises ToolError: nothing came, or it is not allowed.
        """
        url = first = parse(address)
        deadline = anyio.current_time() + SECONDS
        if self._certificates is None:
            # Reading the system's certificates takes 20 to 90 ms.
            self._certificates = await to_thread.run_sync(lambda: httpx.create_ssl_context(trust_env=False))
        for _ in range(REDIRECTS + 1):
            permitted = allow_private and (url.host, url.port, url.scheme) == (
                first.host,
                first.port,
                first.scheme,
            )
            try:
                with anyio.fail_after(deadline - anyio.current_time()):
                    found = await self._addresses(url)
                    response, client = await self._respond(url, found, permitted, redirected=url != first)
            except TimeoutError:
                raise ToolError(f"{url} did not answer within {SECONDS:g} s.") from None
            try:
                if not response.has_redirect_location:
                    return await _read(response, url, deadline)
                url = _redirected(url, response.headers["location"])
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                    await response.aclose()
                    await client.aclose()
        raise ToolError(f"{address} redirects more than {REDIRECTS} times; the last time to {url}.")

    async def _addresses(self, url: httpx.URL) -> list[str]:
        host = url.raw_host.decode()
        try:
            found = await self._resolve(host, url.port or _PORTS[url.scheme])
        except (OSError, UnicodeError) as e:
            raise ToolError(f"The host {host} is not known: {e}. Check the URL.") from e
        return found

    def _reason(self, url: httpx.URL, found: list[str]) -> str | None:
        for address in found:
            reason = self._judge(address)
            if reason is not None:
                where = url.host if url.host == address else f"{url.host} ({address})"
                return f"{where} is not a public address: {reason}"
        return None

    async def _respond(
        self, url: httpx.URL, found: list[str], permitted: bool, *, redirected: bool
    ) -> tuple[httpx.Response, httpx.AsyncClient]:
        """Connect to the first of the judged addresses that lets us, and read the response's head."""
        reason = self._reason(url, found)
        if reason is not None and not permitted:
            if redirected:
                raise ToolError(
                    f"The page redirects to {url}, but {reason}. If that is wanted, fetch {url} itself; "
                    "the user is then asked."
                )
            raise ToolError(f"Not fetched: {reason}, and the user was not asked about it.")
        assert self._certificates is not None
        failure = "no address was found"
        for address in found:
            client = httpx.AsyncClient(
                verify=self._certificates, trust_env=False, follow_redirects=False, timeout=SECONDS / 3
            )
            try:
                request = client.build_request(
                    "GET",
                    url.copy_with(host=address, fragment=None),
                    headers={"Host": url.netloc.decode(), **_HEADERS},
                    extensions={"sni_hostname": url.raw_host.decode().rstrip(".")},
                )
                return await client.send(request, stream=True), client
            except (httpx.HTTPError, httpx.InvalidURL) as e:
                await client.aclose()
                failure = str(e) or type(e).__name__
                if not isinstance(e, httpx.ConnectError | httpx.ConnectTimeout):
                    break
            except BaseException:
                with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                    await client.aclose()
                raise
        raise ToolError(f"{url} cannot be fetched: {failure}. (Proxies are not used.)")


def parse(address: str) -> httpx.URL:
    """Raises ToolError for what web_fetch does not fetch, whatever its address."""
    try:
        url = httpx.URL(address.strip())
    except httpx.InvalidURL as e:
        raise ToolError(f"{address[:200]} is not a URL: {e}.") from e
    if url.scheme not in _PORTS:
        raise ToolError(f"{address[:200]} is not fetched: only http and https are. Give the whole URL.")
    if url.userinfo or "@" in _AUTHORITY.sub(r"\1", address, count=1):
        raise ToolError(
            "The URL names a user, which may hide where it leads. Give it without the part before the @."
        )
    if not _HOST.fullmatch(url.raw_host.decode()) or (url.port is not None and not 0 < url.port < 65536):
        raise ToolError(f"{address[:200]} names no host, or no possible port.")
    return url


def _redirected(url: httpx.URL, location: str) -> httpx.URL:
    try:
        return parse(str(url.join(location)))
    except (httpx.InvalidURL, ToolError) as e:
        raise ToolError(f"{url} redirects to what is not fetched. {e}") from e


async def _read(response: httpx.Response, url: httpx.URL, deadline: float) -> Page:
    kind, charset = media_type(response.headers.get("content-type", ""))
    told = response.headers.get("content-length", "")
    size = int(told) if told.isascii() and told.isdigit() and len(told) < 16 else None
    status = f"{response.status_code} {response.reason_phrase}".strip()
    codings = [
        c.strip().lower() for c in response.headers.get("content-encoding", "").split(",") if c.strip()
    ]
    unasked = ", ".join(coding for coding in codings if coding not in _CODINGS)
    if never_text(kind) or unasked:
        return Page(str(url), status, kind, charset, b"", size, coding=unasked)
    body = bytearray()
    cut = ""
    try:
        with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > DECODED:
                    cut = f"it is cut at {DECODED // 2**20} MiB after decompression"
                elif response.num_bytes_downloaded > OCTETS:
                    cut = f"it is cut at {OCTETS // 2**20} MiB"
                if cut:
                    break
    except TimeoutError:
        cut = f"it is cut at what came within {SECONDS:g} s"
    except httpx.HTTPError as e:
        cut = f"it is cut where the transfer broke: {e or type(e).__name__}"
    if not cut:
        size = len(body)
    return Page(str(url), status, kind, charset, bytes(body[:DECODED]), size, cut)
