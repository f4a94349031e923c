"""JSON-RPC 2.0, one object a line: what a line means, and lines to send. No input makes it raise.

Ids are kept as they came, since they are the client's own. The lines of hot paths are not made here:
workers encode updates once (`updates`), and the front splices them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from shared.errors import INVALID_REQUEST, PARSE_ERROR, RequestError

RequestId = str | int | float

MAX_LINE: Final = 48 * 2**20
"""Octets of a line from outside; a prompt of 12 MB escaped twice over still fits."""

_EARLY_ID: Final = re.compile(rb'^\s*\{(?:(?!"params")[^{])*?"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,128}")\s*[,}]')
_NO_NUMBERS: Final = (float("inf"), float("-inf"))
"""What a number too large for a float is read as: as an id it could not be sent back."""
_DEEPEST: Final = 200
"""Levels of nesting that jiter reads, and the workers with it."""


@dataclass(frozen=True, slots=True)
class Request:
    """Wants exactly one answer under its id."""

    id: RequestId
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Notification:
    """Wants no answer."""

    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request of ours: `error` is the error object, or None and `result` counts."""

    id: Any
    result: Any
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is answered with an error and has no other effect."""

    id: RequestId | None
    error: RequestError


Message = Request | Notification | Response | Malformed


def parse(line: bytes) -> Message | None:
    """What a line means; None for a blank one."""
    if not line.strip():
        return None
    try:
        value = _load(line)
    except (ValueError, RecursionError) as e:
        return Malformed(None, RequestError(PARSE_ERROR, f"The line is not JSON: {str(e)[:200]}"))
    if not isinstance(value, dict):
        kind = "an array (batches are not supported)" if isinstance(value, list) else "not an object"
        return Malformed(None, RequestError(INVALID_REQUEST, f"The line is {kind}."))
    if "method" not in value and ("result" in value or "error" in value):
        error = value.get("error")
        if error is not None and not isinstance(error, dict):
            error = {"code": 0, "message": str(error)}
        return Response(value.get("id"), value.get("result"), error)
    return _call(value)


def _call(value: dict[str, Any]) -> Message:
    has_id = "id" in value
    id_ = value.get("id")
    usable = isinstance(id_, str | int | float) and not isinstance(id_, bool) and id_ not in _NO_NUMBERS
    known: RequestId | None = id_ if usable else None
    if value.get("jsonrpc") != "2.0":
        return Malformed(known, RequestError(INVALID_REQUEST, 'The member "jsonrpc" must be "2.0".'))
    if not isinstance(value.get("method"), str):
        return Malformed(known, RequestError(INVALID_REQUEST, 'The member "method" must be a string.'))
    if not has_id:
        return Notification(value["method"], value.get("params"))
    if known is None:
        return Malformed(None, RequestError(INVALID_REQUEST, "A request's id must be a string or a number."))
    return Request(known, value["method"], value.get("params"))


def _load(line: bytes) -> Any:
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError:
        # jiter refuses the escaped lone surrogates that JavaScript's JSON.stringify writes; the request
        # is good all the same, and must be answered under its id.
        if b"\\u" not in line:
            raise
        return _scrub(json.loads(line.decode(), parse_constant=_no_constant))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _scrub(value: Any, depth: int = 0) -> Any:
    """The same JSON value with lone surrogates replaced by U+FFFD. Raises ValueError if nested too deeply."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict | list | tuple) and depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    if isinstance(value, list | tuple):
        return [_scrub(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item, depth + 1) for key, item in value.items()}
    return value


def encode(value: Any) -> bytes:
    """JSON in UTF-8 on one line, without the line's end. Lone surrogates become U+FFFD, NaN null."""
    try:
        return to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        return to_json(_scrub(value), inf_nan_mode="null")


def result_line(id_: RequestId, result: bytes) -> bytes:
    """The answer `result` (encoded JSON) as a line."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (encode(id_), result)


def error_line(id_: RequestId | None, error: dict[str, Any]) -> bytes:
    """An error answer as a line; `id_` None where it could not be read."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (encode(id_), encode(error))


def request_line(id_: str, method: str, params: bytes) -> bytes:
    """A request of ours as a line; `params` is encoded JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}\n' % (encode(id_), encode(method), params)


def notification_line(method: str, params: dict[str, Any]) -> bytes:
    """A notification of ours as a line."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (encode(method), encode(params))


class LineSplitter:
    """Cuts a byte stream into lines, in memory bounded by `limit`.

    A longer line is dropped as it comes, and told as `Malformed` under its id where that stood early.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._dropped: bytes | None = None

    def feed(self, chunk: bytes) -> list[bytes | Malformed]:
        """The lines that `chunk` completes, without their ends."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | Malformed] = []
        for piece in ended:
            self._take(piece)
            lines.append(self._finish())
        self._take(rest)
        return lines

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._dropped is not None:
            return
        self._parts.append(piece)
        if self._size > self._limit:
            self._dropped = b"".join(self._parts)[:4096]
            self._parts.clear()

    def _finish(self) -> bytes | Malformed:
        size, dropped = self._size, self._dropped
        line = b"".join(self._parts)
        self._parts.clear()
        self._size, self._dropped = 0, None
        if dropped is None:
            return line
        found = _EARLY_ID.search(dropped)
        details = f"The line has {size} octets; at most {self._limit} are read. Send less, or link to a file."
        if found is None:
            return Malformed(None, RequestError(INVALID_REQUEST, details))
        return Malformed(from_json(found[1]), RequestError(-32602, details))
