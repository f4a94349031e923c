"""Why a server cannot be used, in words for a person, without what its environment and headers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST: Final = 500


class ServerFailure(Exception):
    """A server cannot do what it was asked; `str()` is a sentence. `lasting`: trying again cannot help."""

    def __init__(self, sentence: str, *, lasting: bool = False) -> None:
        super().__init__(sentence)
        self.lasting = lasting


def described(error: BaseException) -> str:
    """What went wrong, as a phrase; of a group the first that says something."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    response = getattr(error, "response", None)
    if response is not None:  # the text of an HTTP status error repeats the URL, which may hold a secret
        return f"HTTP {response.status_code}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:_LONGEST]


def without(text: str, secrets: Iterable[str]) -> str:
    """`text` without the values that were configured as environment or headers."""
    for secret in sorted(secrets, key=len, reverse=True):
        for part in (secret, secret.removeprefix("Bearer ")):
            if len(part) >= 6:
                text = text.replace(part, "***")
    return text
