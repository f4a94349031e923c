"""What the Anthropic model does when a request fails: against the double, over HTTP."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import anthropic
import anyio
import httpx2
import pytest

from tests.double import serving
from tests.worker.asking import asking, everything, model, said
from worker.models.base import ModelError, Reply, Retrying
from worker.models.failures import Asked, Failure, classify
from worker.models.retries import RetryPolicy

if TYPE_CHECKING:
    from worker.models.base import StreamItem

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "fault",
    [
        "@fail 429 rate_limit_error 2",
        "@fail 500 api_error 2",
        "@fail 502 api_error 2",
        "@fail 503 api_error 2",
        "@fail 529 overloaded_error 2",
        "@drop 2",
        "@drop 2 clean",
        "@error overloaded_error 2",
    ],
)
async def test_what_may_pass_is_tried_again_until_it_does(fault: str) -> None:
    async with serving() as double, model(double) as made:
        items = await everything(made, asking(f"{fault}\n@text hello world"))
    retries = [item for item in items if isinstance(item, Retrying)]
    last = max(index for index, item in enumerate(items) if isinstance(item, Retrying))
    assert len(retries) == 2
    assert said(items[last:]) == "hello world"
    assert isinstance(items[-1], Reply)
    assert len(double.requests) == 3  # one layer of retries: the SDK adds none


async def test_a_call_cut_in_its_json_never_comes_out() -> None:
    async with serving() as double, model(double) as made:
        items = await everything(made, asking('@cuttool 1\n@tool bash {"command": "ls"}'))
    replies = [item for item in items if isinstance(item, Reply)]
    assert len(replies) == 1
    assert replies[0].blocks[0]["input"] == {"command": "ls"}
    assert replies[0].malformed == {}


async def test_retries_end_and_the_error_says_why() -> None:
    async with serving() as double, model(double) as made:
        with pytest.raises(ModelError, match=r"overloaded \(529.*6 times") as caught:
            await everything(made, asking("@fail 529 overloaded_error 99"))
    assert len(double.requests) == 6
    assert not caught.value.auth


async def test_retry_after_is_waited_for() -> None:
    async with serving() as double, model(double) as made:
        started = time.monotonic()
        items = await everything(made, asking("@fail 429 rate_limit_error 1 0.4\n@text ok"))
    assert time.monotonic() - started >= 0.4
    assert isinstance(items[0], Retrying)
    assert items[0].delay >= 0.4


async def test_a_wait_longer_than_allowed_is_given_up_at_once() -> None:
    async with serving() as double, model(double) as made:
        with pytest.raises(ModelError, match="429"):
            await everything(made, asking("@fail 429 rate_limit_error 1 3600"))
    assert len(double.requests) == 1


async def test_waiting_for_a_retry_is_cancelled_at_once() -> None:
    async with serving() as double, model(double, policy=RetryPolicy(first_delay=60)) as made:
        started = time.monotonic()
        with anyio.CancelScope() as scope:
            async for item in made.stream(asking("@drop 9\n@text a b")):
                if isinstance(item, Retrying):
                    asyncio.get_running_loop().call_later(0.05, scope.cancel)
        assert scope.cancelled_caught
        assert time.monotonic() - started < 5


async def test_a_stream_left_early_leaves_the_model_usable() -> None:
    async with serving() as double, model(double) as made:
        with anyio.move_on_after(5):
            async with aclosing(made.stream(asking("@text a\n@stall 60"))) as stream:
                async for _ in stream:
                    break
        with anyio.move_on_after(0.2):
            await everything(made, asking("@text a\n@stall 60"))
        assert said(await everything(made, asking("@text still here"))) == "still here"


async def test_a_silent_model_is_asked_again() -> None:
    async with (
        serving() as double,
        model(double, silence=0.2, policy=RetryPolicy(retries=1, first_delay=0.01)) as made,
    ):
        with pytest.raises(ModelError, match=r"sent nothing for 0\.2 s"):
            await everything(made, asking("@text a\n@stall 60"))
    assert len(double.requests) == 2


async def test_a_ping_counts_as_a_sign_of_life() -> None:
    async with serving() as double, model(double, silence=1.5) as made:
        items = await everything(made, asking("@sleep 2.2\n@text late"))
    assert said(items) == "late"
    assert not any(isinstance(item, Retrying) for item in items)


@pytest.mark.parametrize(("key", "status"), [("refused", "401"), ("forbidden", "403")])
async def test_refused_credentials_are_not_retried_and_tell_what_to_do(key: str, status: str) -> None:
    async with serving() as double, model(double, key=key) as made:
        with pytest.raises(ModelError, match=status) as caught:
            await everything(made, asking("@text hi"))
    assert caught.value.auth
    assert "ANTHROPIC_API_KEY" in str(caught.value)
    assert len(double.requests) == 1


async def test_an_unknown_address_is_not_retried() -> None:
    async with serving() as double, model(double, base_url=f"{double.base_url}/other") as made:
        with pytest.raises(ModelError, match="claude-sonnet-5-5"):
            await everything(made, asking("@text hi"))
    assert len(double.requests) == 1


async def test_a_prompt_that_is_too_long_is_told_as_such() -> None:
    async with serving(window=50) as double, model(double) as made:
        with pytest.raises(ModelError, match="too long") as caught:
            await everything(made, asking("word " * 500))
    assert caught.value.too_long


async def test_an_invalid_request_is_told_in_one_sentence() -> None:
    async with serving() as double, model(double) as made:
        with pytest.raises(ModelError, match="non-whitespace") as caught:
            await everything(made, asking("  "))
    assert "\n" not in str(caught.value)
    assert not caught.value.too_long


async def test_nobody_listening_is_a_connection_error() -> None:
    async with serving() as double:
        gone = double.base_url
    async with model(double, base_url=gone, policy=RetryPolicy(retries=1, first_delay=0.01)) as made:
        items: list[StreamItem] = []
        with pytest.raises(ModelError, match=r"no connection to 127\.0\.0\.1"):
            items += [item async for item in made.stream(asking("hi"))]


async def test_no_error_shows_the_key_or_a_password_in_the_address() -> None:
    async with serving() as double:
        address = double.base_url.replace("http://", "http://user:pa55word@")
        for prompt in ("@fail 400 invalid_request_error 9", "@fail 404 not_found_error 9", "  "):
            async with model(double, base_url=address) as made:
                with pytest.raises(ModelError) as caught:
                    await everything(made, asking(prompt))
                assert "s3cret" not in str(caught.value)
                assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/html; charset=utf-8", "<h1>Log in</h1>"), ("application/json", '{"error": "x"}')],
)
async def test_an_answer_that_is_no_stream_is_told_at_once(kind: str, body: str) -> None:
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close"
        writer.write(f"{head}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server, serving() as double:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with model(double, base_url=address) as made:
            with pytest.raises(ModelError, match="ANTHROPIC_BASE_URL") as caught:
                await everything(made, asking("hi"))
    assert kind.partition(";")[0] in str(caught.value)
    assert asked == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
        (400, "request (131168 tokens) exceeds the available context size (131072 tokens)"),
        (500, "context size has been exceeded"),
        (400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
        (422, "Range of input length should be [1, 129024]"),
        (400, "Prompt exceeds max length"),
        (413, "Request Entity Too Large"),
    ],
)
def test_a_conversation_that_is_too_long_is_told_in_the_words_of_many_servers(status: int, said: str) -> None:
    failure = answered(status, said)
    assert failure.too_long
    assert not failure.retry
    assert "/compact" in failure.sentence


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "max_tokens: 64000 exceeds the model's output token limit of 32000"),
        (400, "tools.0.name: exceeds max length of 64"),
        (400, "system.0.text exceeds maximum length"),
        (400, "Your account's token limit was reached"),
        (500, "context limit reached, retry"),
    ],
)
def test_what_is_not_the_conversations_length_is_not_told_to_be(status: int, said: str) -> None:
    assert not answered(status, said).too_long


def answered(status: int, said: str) -> Failure:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://h"), json=body)
    kind = anthropic.InternalServerError if status == 500 else anthropic.BadRequestError
    failure = classify(kind(said, response=response, body=body), Asked("m", "h", 1))
    assert failure is not None
    return failure
