"""Errors as JSON-RPC shows them: the codes of ACP, and one exception that carries an answer.

`data.details` is the sentence that a person reads: what happened, to what, and what to do.
"""

from __future__ import annotations

from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
AUTH_REQUIRED: Final = -32000
REQUEST_CANCELLED: Final = -32800

_MESSAGES: Final = {
    PARSE_ERROR: "Parse error",
    INVALID_REQUEST: "Invalid request",
    METHOD_NOT_FOUND: "Method not found",
    INVALID_PARAMS: "Invalid params",
    INTERNAL_ERROR: "Internal error",
    AUTH_REQUIRED: "Authentication required",
    REQUEST_CANCELLED: "Request cancelled",
}


class RequestError(Exception):
    """A request that is answered with a JSON-RPC error object.

    `code` is one of this module's constants; `data` is JSON and never holds a secret.
    """

    def __init__(self, code: int, details: str | None = None, **data: Any) -> None:
        self.code = code
        self.message = _MESSAGES[code]
        self.data: dict[str, Any] = dict(data)
        if details is not None:
            self.data["details"] = details
        super().__init__(details or self.message)

    def to_json(self) -> dict[str, Any]:
        """The `error` member of a response."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data:
            error["data"] = self.data
        return error

    @classmethod
    def from_json(cls, error: dict[str, Any]) -> RequestError:
        """The exception for an `error` member that `to_json` made."""
        made = cls(error["code"])
        made.data = dict(error.get("data", {}))
        return made


def unknown_session() -> RequestError:
    """The reference's answer to any session id that names no session."""
    return RequestError(INVALID_PARAMS, session_id="Session not found")
