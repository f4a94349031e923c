"""Files as the client's editor has them: text that is not saved yet, and writing through the editor.

Used only where the client advertised it, and always with the disk to fall back on: a client that
answers with an error, with nonsense or not at all makes no call fail.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from shared.jsonrpc import encode
from shared.updates import LONGEST_LINE
from worker.client import ClientError
from worker.files.content import WHOLE, digest
from worker.files.decoding import read_text
from worker.files.knowing import key_of
from worker.off_loop import off_loop

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.base import ToolContext

_PATIENCE: Final = 5.0
"""Seconds for an answer; some clients never answer a method that they do not know."""
_AROUND: Final = 1000
"""Octets of a request's line beside its params."""
_log = logging.getLogger(__name__)


async def unsaved_text(context: ToolContext, path: Path, disk: bytes) -> str | None:
    """The editor's text of a resolved path where it says more than other line ends than `disk`, else None."""
    if not context.editor.reads_files or len(disk) > WHOLE:
        return None
    found = await off_loop(read_text, disk)
    if found is None:
        return None
    result = await _request(context, "fs-read", "fs/read_text_file", {"path": str(path)})
    text = result.get("content") if isinstance(result, dict) else None
    if not isinstance(text, str) or same_text(text, found[1]):
        return None
    return text


def same_text(a: str, b: str) -> bool:
    """Whether two texts are the same but for CRLF against LF and a byte order mark."""
    return a == b or _plain(a) == _plain(b)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


async def written_by_editor(context: ToolContext, path: Path, data: bytes) -> bool:
    """Have the editor write `data`; False if it cannot, was not asked, or gave no answer."""
    if not context.editor.writes_files or len(data) > WHOLE:
        return False
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    params = {"path": str(path), "content": text}
    if len(encode(params)) > LONGEST_LINE - _AROUND:
        return False
    return await _request(context, "fs-write", "fs/write_text_file", params) is not _FAILED


_FAILED: Final = object()


async def _request(context: ToolContext, purpose: str, method: str, params: dict[str, Any]) -> Any:
    try:
        return await context.editor.request(f"{context.call_id}:{purpose}", method, params, _PATIENCE)
    except (ClientError, TimeoutError) as e:
        _log.info("The client did not do %s, the disk is used instead: %r", method, e)
        return _FAILED


def unsaved_key(path: Path) -> str:
    """The name under which the stamp of an editor's unsaved text is kept; no path looks like it."""
    return f"editor:{key_of(path)}"


def unsaved_stamp(text: str) -> str:
    """The stamp of an editor's unsaved text."""
    return digest(text.encode("utf-8", "surrogatepass"))
