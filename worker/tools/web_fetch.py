"""`web_fetch`: a page as text. From public addresses unasked, from others when the user agrees."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import anyio
from pydantic import Field

from worker import page_text
from worker.fetching import Fetcher, Page
from worker.output import visible
from worker.page_kinds import charset_of, kind_of
from worker.tools.base import Tool, ToolError, ToolInput, ToolOutput

if TYPE_CHECKING:
    from worker.tools.base import ToolContext

_CONVERSION: Final = 20.0
"""Seconds, by the clock; the program holds itself to a time of CPU too."""


class WebFetchInput(ToolInput):
    """What the model gives."""

    url: Annotated[str, Field(min_length=1, max_length=8000, description="http or https.")]
    max_length: Annotated[int, Field(ge=1, le=200_000, description="Characters of the result.")] = 50_000


class WebFetch(Tool[WebFetchInput]):
    """Fetches by `worker.fetching`; a test may give a fetcher that judges addresses otherwise."""

    name = "web_fetch"
    kind = "fetch"
    description = (
        "Fetch a web page and give its text: HTML as Markdown, other text as it is. Images, PDFs and other "
        "binary files are only named. Goes to public addresses; for others the user is asked."
    )
    Input = WebFetchInput
    read_only = True

    def __init__(self, fetcher: Fetcher | None = None) -> None:
        self._fetcher = fetcher or Fetcher()

    def title(self, args: WebFetchInput) -> str:
        """The URL."""
        return f"Fetch {args.url[:200]}"

    async def crosses(self, args: WebFetchInput) -> str | None:
        """That the host is not public, where it is not."""
        try:
            return await self._fetcher.private(args.url)
        except ToolError:
            # Refused whatever its address; `run` says why.
            return None

    async def run(self, args: WebFetchInput, context: ToolContext) -> ToolOutput:
        """Raises ToolError when nothing came or it is not allowed. A status that tells of a failure fails."""
        page = await self._fetcher.fetch(args.url, allow_private=context.allow_private_addresses)
        kind = "other" if page.coding else kind_of(page.kind, page.charset, page.body)
        if kind == "other":
            text, total, title = _named(page), 0, ""
        elif kind == "html":
            text, total, title = await _converted(page, args.max_length, context)
        else:
            codec = charset_of(page.charset, page.body, markup=False)
            text = await anyio.to_thread.run_sync(page.body.decode, codec, "replace")
            total, title = len(text), ""
        return _output(args, page, visible(text[: args.max_length].replace("\r\n", "\n")), total, title)


def _output(args: WebFetchInput, page: Page, text: str, total: int, title: str) -> ToolOutput:
    head = []
    if page.url != args.url:
        head.append(f"[from {page.url}]")
    if page.failed:
        head.append(f"[HTTP status {page.status}]")
    if title:
        head.append(f"[title: {visible(title)}]")
    if total > args.max_length:
        text += f"\n[truncated: the first {args.max_length:,} of {total:,} characters; max_length gives more]"
    if page.cut:
        text += f"\n[The page is not whole: {page.cut}]"
    raw: dict[str, object] = {"url": page.url, "status": int(page.status[:3]), "type": page.kind}
    return ToolOutput("\n".join((*head, text or "(empty)")), is_error=page.failed, raw=raw)


def _named(page: Page) -> str:
    size = "unknown size" if page.size is None else f"{page.size:,} bytes"
    what = page.kind or "a type that is not told"
    coding = f", encoded as {page.coding}, which was not asked for" if page.coding else ""
    return f"[Not text: {what}, {size}{coding}. It can be downloaded with bash (curl -o) if it is needed.]"


async def _converted(page: Page, limit: int, context: ToolContext) -> tuple[str, int, str]:
    """Text, characters in all, title. Markdown if the program for it ends well, else plain text."""
    charset = charset_of(page.charset, page.body, markup=True)
    for mode in ("markdown", "text"):
        output = bytearray()

        async def take(data: bytes, output: bytearray = output) -> None:
            output.extend(data)

        async def ignore(data: bytes) -> None:
            """What the program says of its failure helps nobody."""

        file = await anyio.to_thread.run_sync(_stored, page.body)
        try:
            child = context.processes.start(
                [sys.executable, "-I", page_text.__file__, mode, charset, page.url, str(limit)],
                cwd=Path("/"),
                environment=context.environment,
                stdin=file.fileno(),
                receive=take,
                receive_errors=ignore,
                timeout=_CONVERSION,
            )
        except OSError as e:
            raise ToolError(f"The page was fetched, but not converted: {e.strerror}.") from e
        finally:
            file.close()
        ended = await context.processes.wait(child)
        if ended.returncode == 0:
            head, _, text = bytes(output).partition(b"\n")
            told = json.loads(head)
            return text.decode(errors="replace"), told["total"], told["title"]
    raise ToolError(f"{page.url} was fetched, but cannot be converted to text within its time.")


def _stored(body: bytes) -> IO[bytes]:
    """The body in a file without a name, at its beginning."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(body)
    file.seek(0)
    return file


TOOL = WebFetch()
