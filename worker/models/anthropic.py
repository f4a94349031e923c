"""Models of the Anthropic Messages API, asked through the official SDK, streaming.

By the client's `post`, with events as plain JSON: measured, `messages.create(stream=True)` takes 65 µs an
event against 20, to build objects that nothing validates; `messages.stream()` twice as much again, and it
raises on malformed tool JSON. The stream ends without an error when the connection is cut, so one without
`message_stop` is a cut stream here. The SDK's own retries are off.
"""

from __future__ import annotations

import random
import time
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import anthropic
import anyio
import httpx2

from worker.models.base import ModelError, Retrying
from worker.models.failures import CUT, Asked, Failure, classify, no_reply
from worker.models.replies import ReplyBuilder
from worker.models.requests import arguments, encoded, signatures, without_thinking
from worker.models.retries import RetryPolicy

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

    from shared.catalog import ModelEntry
    from shared.credentials import Credentials
    from worker.models.base import ModelRequest, StreamItem

    AnyClient = anthropic.AsyncAnthropic | anthropic.AsyncAnthropicBedrock | anthropic.AsyncAnthropicVertex

SILENCE: Final = 90.0
"""Seconds without a byte (a ping is one) after which a stream counts as dead."""
_CONNECT = 10.0
_DRAIN = 0.5
"""Seconds given to the end of a body after `message_stop`: read to its end, the connection is used again."""


@cache
def ssl_context() -> ssl.SSLContext:
    """The process's one TLS context. To read the authorities takes 20-150 ms: forked workers inherit it."""
    return httpx2.create_ssl_context()


async def _post(client: AnyClient, request: dict[str, Any]) -> anthropic.AsyncStream[object]:
    """Ask for a message. The stream of its events, each a JSON value as it was sent."""
    streamed = {**request, "stream": True}
    # The clouds' clients change the body, so they get it as it is.
    finished = isinstance(client, anthropic.AsyncAnthropic)
    sent = {"content": encoded(streamed)} if finished else {"body": streamed}
    return await client.post(
        "/v1/messages",
        **sent,
        cast_to=object,
        stream=True,
        stream_cls=anthropic.AsyncStream[object],
    )


def transport(silence: float = SILENCE) -> dict[str, Any]:
    """The arguments that every client of the SDK is made with here. `silence` is in seconds."""
    timeout = anthropic.Timeout(silence, connect=_CONNECT, pool=_CONNECT)
    http = anthropic.DefaultAsyncHttpxClient(verify=ssl_context(), timeout=timeout)
    return {"max_retries": 0, "timeout": timeout, "http_client": http}


def anthropic_client(
    credentials: Credentials, base_url: str | None = None, silence: float = SILENCE
) -> anthropic.AsyncAnthropic:
    """A client of the Anthropic API or of a server compatible with it. The first imports most of the SDK.

    Raises OSError where the user's certificates cannot be read.
    """
    return anthropic.AsyncAnthropic(
        api_key=credentials.api_key,
        auth_token=credentials.auth_token,
        base_url=base_url or None,
        **transport(silence),
    )


class AnthropicModel:
    """A `Model` over one client of the SDK. Close its streams (`contextlib.aclosing`) if left early.

    `silence` is the client's read time-out in seconds, for messages. `secrets` never appear in any.
    """

    def __init__(
        self,
        client: AnyClient,
        entry: ModelEntry,
        *,
        silence: float = SILENCE,
        policy: RetryPolicy | None = None,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._client = client
        self._entry = entry
        self._policy = policy or RetryPolicy()
        self._refused: set[str] = set()
        """Signatures of thinking that the service does not take back."""
        self._asked = Asked(entry.id, client.base_url.host, silence, secrets)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """See `Model.stream`."""
        made = arguments(request, self._entry)
        if self._refused:
            made["messages"] = without_thinking(made["messages"], self._refused)
        retries, first_failure = 0, None
        while True:
            builder, failure = ReplyBuilder(), CUT
            try:
                async with await _post(self._client, made) as response:
                    events = aiter(response)
                    failure = no_reply(response.response.headers, self._asked)
                    async for event in events:
                        failure = CUT
                        if (item := builder.feed(event)) is not None:
                            yield item
                        if builder.complete:
                            break
                    with anyio.move_on_after(_DRAIN):
                        async for _ in events:
                            pass
            except Exception as error:  # noqa: BLE001 - the clouds' signers raise types of their own
                failure = self._failure(error, builder)
            if builder.complete:
                yield builder.reply()
                return
            if failure.thinking_refused and (refused := signatures(made["messages"])):
                # For good: it costs one refused request, not one in each that follows.
                self._refused |= refused
                made["messages"] = without_thinking(made["messages"], refused)
                continue
            now = time.monotonic()
            first_failure = first_failure or now
            delay = (
                self._policy.delay(retries, now - first_failure, failure.retry_after, random.random())
                if failure.retry
                else None
            )
            if delay is None:
                also = f" (tried {retries + 1} times)" if retries else ""
                raise ModelError(
                    f"{failure.sentence}{also}.",
                    auth=failure.auth,
                    too_long=failure.too_long,
                    passing=failure.retry,
                )
            retries += 1
            yield Retrying(failure.reason, delay)
            await anyio.sleep(delay)

    async def aclose(self) -> None:
        """Close the client and its connections."""
        await self._client.close()

    def _failure(self, error: Exception, builder: ReplyBuilder) -> Failure:
        """What to do about `error`; raises it again if it is a bug."""
        if builder.complete:
            return CUT  # the reply is whole, whatever became of the connection after it
        failure = classify(error, self._asked)
        if failure is None:
            raise error
        return failure
