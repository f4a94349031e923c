"""Requests of a session to its client: one call, an answer by whichever client has the session.

A request is named by a key that is the same in each epoch, so that a permission that was open when a
worker died is not asked a second time: the new worker asks with the same key, and the front joins it
to the dialog that the user still sees.
"""

from __future__ import annotations

from typing import Any, Protocol


class EditorClient(Protocol):
    """What tools may ask of the client, only where it advertised the capability."""

    @property
    def reads_files(self) -> bool:
        """`fs.readTextFile` was advertised."""
        ...

    @property
    def writes_files(self) -> bool:
        """`fs.writeTextFile` was advertised."""
        ...

    @property
    def runs_terminals(self) -> bool:
        """`terminal` was advertised."""
        ...

    async def request(self, key: str, method: str, params: dict[str, Any], timeout: float) -> Any:
        """The client's `result`. Raises ClientError for its error, TimeoutError when it never answers.

        `timeout` is in seconds; `params` lacks `sessionId`, which is added. Cancelled: withdrawn.
        """
        ...


class ClientError(Exception):
    """The client answered a request with an error; `str()` is its message."""
