"""What the agent loop needs of a model: one streamed reply to one request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ThinkingLevel = Literal["off", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request in the shape of the Anthropic Messages API."""

    model: str
    system: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    max_tokens: int
    thinking: ThinkingLevel = "off"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or of a whole turn. `input` counts cached tokens too."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


def usage_record(usage: Usage) -> dict[str, int]:
    """A request's tokens as the history keeps them."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
    }


@dataclass(frozen=True, slots=True)
class Text:
    """A text delta."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A thinking delta."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole assistant message, always the last item of a stream.

    `blocks` are the API's content blocks: text, thinking with its signature (byte for byte as it
    came), redacted_thinking, tool_use. A tool_use whose JSON did not parse has `input: {}`, and
    `malformed` has the text that came by its place in the blocks.
    `stop_reason` is the API's own word: end_turn, tool_use, max_tokens, refusal, pause_turn, …
    """

    blocks: list[dict[str, Any]]
    stop_reason: str
    usage: Usage
    malformed: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrying:
    """The request failed in a way that may pass and is being sent again after `delay` seconds.

    What was streamed of the failed attempt does not count.
    """

    reason: str
    delay: float


StreamItem = Text | Thinking | Retrying | Reply


class ModelError(Exception):
    """The model gave no reply. `str()` is one sentence that the user can act on.

    `auth`: credentials are missing or were refused. `too_long`: the prompt exceeds the window. `passing`:
    it was tried as often as is allowed, and may work later.
    """

    def __init__(
        self, sentence: str, *, auth: bool = False, too_long: bool = False, passing: bool = False
    ) -> None:
        super().__init__(sentence)
        self.auth = auth
        self.too_long = too_long
        self.passing = passing


class Model(Protocol):
    """A model that streams one reply per request. Safe to cancel at any await."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Yield deltas as they come, then exactly one `Reply`.

        Raises `ModelError` when there is no reply to be had; retries of its own are told by `Retrying`.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
