"""`initialize` of a client that sent it at once, answered before the event loop and the front are imported.

Those imports take three quarters of the time from start to answer. Only the plain case is answered here;
every other first input is handed on unread, to be served in the ordinary way.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
from typing import Any, Final, NamedTuple

from supervisor.handshake import initialize_result

_CHUNK: Final = 256 * 1024


class Greeting(NamedTuple):
    """What was done: `capabilities` of a client that was answered (None: nobody was), and what is left.

    `unread` are octets of the client's that are still to be served, `unwritten` those of the answer that
    its end of the pipe had no room for.
    """

    capabilities: dict[str, Any] | None = None
    unread: bytes = b""
    unwritten: bytes = b""


def greet(stdin: int, stdout: int) -> Greeting:
    """Answer `initialize` if it is there already; waits for nothing."""
    if not select.select([stdin], [], [], 0)[0]:
        return Greeting()
    try:
        chunk = os.read(stdin, _CHUNK)
    except OSError:
        return Greeting()
    line, ended, unread = chunk.partition(b"\n")
    request = _plain(line) if ended else None
    if request is None:
        return Greeting(unread=chunk)
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": initialize_result([])}
    encoded = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    written = 0
    # A pipe without room is written to by the loop, and one without a reader ends it.
    with contextlib.suppress(OSError):
        written = os.write(stdout, encoded)
    return Greeting(request["params"]["clientCapabilities"], unread, encoded[written:])


def _plain(line: bytes) -> dict[str, Any] | None:
    """The request, if nothing about it is out of the ordinary."""
    try:
        found = json.loads(line)
        plain = (
            found["jsonrpc"] == "2.0"
            and found["method"] == "initialize"
            and (type(found["id"]) is int or (isinstance(found["id"], str) and found["id"].isascii()))
            and isinstance(found["params"]["clientCapabilities"], dict)
            # Whether it must sign in takes reading settings and credentials.
            and "auth" not in found["params"]["clientCapabilities"]
        )
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return found if plain else None
