"""The Anthropic model against the strict double, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest

from shared import catalog
from tests.double import serving
from tests.worker.asking import QUICK, asking, everything, model, said, whole
from worker.models.anthropic import AnthropicModel
from worker.models.base import ModelError, Reply, Text, Thinking
from worker.models.requests import arguments

pytestmark = pytest.mark.anyio


async def test_a_reply_streams_and_ends_with_the_whole_message() -> None:
    async with serving() as double, model(double) as made:
        items = await everything(made, asking('@think a b\n@text hello world\n@tool bash {"command": "ls"}'))
    assert items[:4] == [Thinking("a "), Thinking("b"), Text("hello "), Text("world")]
    reply = items[-1]
    assert isinstance(reply, Reply)
    assert [block["type"] for block in reply.blocks] == ["thinking", "text", "tool_use"]
    assert reply.blocks[2]["input"] == {"command": "ls"}
    assert (reply.stop_reason, reply.malformed) == ("tool_use", {})
    assert reply.usage.input > 0
    assert reply.usage.output > 0


async def test_thinking_goes_back_as_it_came() -> None:
    async with serving() as double, model(double) as made:
        first = await whole(made, asking('@think é 😀  x\n@tool bash {"command": "ls"}\n@text done'))
        call = first.blocks[-1]["id"]
        answer = [{"role": "assistant", "content": first.blocks}]
        results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "x"}]}
        request = asking('@think é 😀  x\n@tool bash {"command": "ls"}\n@text done', *answer, results)
        items = await everything(made, request)
    assert double.refusals == []  # the double checks its signature against the text
    assert said(items) == "done"


async def test_malformed_tool_json_is_told_and_not_raised() -> None:
    async with serving() as double, model(double) as made:
        reply = await whole(made, asking('@badjson bash {"command": "rm'))
    assert list(reply.malformed.values()) == ['{"command": "rm']
    assert reply.blocks[0]["input"] == {}


async def test_thinking_of_another_conversation_is_left_out_instead_of_failing_for_good() -> None:
    foreign = {"type": "thinking", "thinking": "changed", "signature": "double-of-something-else"}
    answer = {"role": "assistant", "content": [foreign, {"type": "text", "text": "hello"}]}
    again = {"role": "user", "content": "@text fine"}
    async with serving() as double, model(double) as made:
        request = asking("hi", answer, again)
        items = await everything(made, request)
        later = await everything(made, request)
    assert said(items) == said(later) == "fine"
    # Refused once: later requests leave it out at once.
    assert [received.status for received in double.requests] == [400, 200, 200]
    assert request.messages[1] == answer  # the caller's messages are not touched


async def test_the_next_request_of_a_turn_is_read_from_the_cache() -> None:
    system = "Know this. " * 2_000
    prompt = '@tool bash {"command": "1"}\n@text .\n@tool bash {"command": "2"}\n@text done'
    async with serving() as double, model(double) as made:
        history: list[dict[str, Any]] = []
        for _ in range(3):
            reply = await whole(made, asking(prompt, *history, system=system))
            calls = [block for block in reply.blocks if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in calls]
            history += [{"role": "assistant", "content": reply.blocks}, {"role": "user", "content": results}]
    for received in double.requests[1:]:
        usage = received.usage
        assert usage["read"] / sum(usage.values()) >= 0.9
    assert double.refusals == []


async def test_many_parallel_calls_do_not_lose_the_cache() -> None:
    prompt = "\n".join(["x " * 2_000, *['@tool bash {"command": "ls"}'] * 30, "@text done"])
    async with serving() as double, model(double) as made:
        first = await whole(made, asking(prompt))
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in first.blocks
        ]
        follow = [{"role": "assistant", "content": first.blocks}, {"role": "user", "content": results}]
        reply = await whole(made, asking(prompt, *follow))
    assert reply.usage.cache_read > 900


async def test_connections_are_used_again() -> None:
    async with serving() as double, model(double) as made:
        for _ in range(3):
            await whole(made, asking("@text hi"))
        assert len(double.connections) == 1


async def test_a_request_arrives_as_it_was_built() -> None:
    odd = {"path": "é 😀 \u2028 \x7f", "count": 2**70, "share": 1e-7, "deep": [{"none": None, "yes": True}]}
    call = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": odd}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    request = asking(
        "@text hi", {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}
    )
    async with serving() as double, model(double) as made:
        await whole(made, request)
    (received,) = double.requests
    entry = catalog.load().entry(request.model)
    assert received.body == arguments(request, entry) | {"stream": True}
    assert received.headers["content-type"] == "application/json"


async def test_a_cloud_gets_a_body_that_its_client_has_changed() -> None:
    received: list[httpx2.Request] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        received.append(request)
        return httpx2.Response(400, json={"error": {"type": "invalid_request_error", "message": "no"}})

    client = anthropic.AsyncAnthropicVertex(
        region="europe-west1",
        project_id="project",
        access_token="token",
        http_client=anthropic.DefaultAsyncHttpxClient(transport=httpx2.MockTransport(refuse)),
    )
    entry = catalog.load().entry("vertex/claude-sonnet-5-5")
    made = AnthropicModel(client, entry, policy=QUICK)
    with pytest.raises(ModelError):
        await everything(made, asking("hi", model="vertex/claude-sonnet-5-5"))
    await made.aclose()
    (sent,) = received
    body = json.loads(sent.content)
    assert sent.url.path.endswith("/models/claude-sonnet-5-5:streamRawPredict")
    assert "model" not in body
    assert body["anthropic_version"]
    assert body["messages"][0]["role"] == "user"
