"""The double is as strict as it says, and answers as it is told."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.double import serving
from tests.double.cache import PromptCache
from tests.double.directives import script
from tests.double.rules import problem, signature

GOOD: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 10,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}
CALL = {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}
CALL2 = {**CALL, "id": "t2"}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
RESULT2 = {**RESULT, "tool_use_id": "t2"}
TEXT = {"type": "text", "text": "x"}
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
TOOL = {"name": "bash", "input_schema": {"type": "object"}}


def conversation(*contents: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": content} for place, content in enumerate(contents)]
    return {**GOOD, "messages": messages}


def test_a_right_conversation_is_taken() -> None:
    assert (
        problem(conversation("a", [THOUGHT, TEXT, CALL, CALL2], [RESULT, RESULT2, TEXT], [TEXT], "b")) is None
    )


def test_two_messages_of_one_role_are_one_turn() -> None:
    body = conversation("a", [CALL])
    body["messages"] += [{"role": "user", "content": [RESULT]}, {"role": "user", "content": [TEXT]}]
    assert problem(body) is None


@pytest.mark.parametrize(
    ("what", "contents"),
    [
        ("without `tool_result`", ("a", [CALL], [TEXT])),
        ("without `tool_result`", ("a", [CALL, CALL2], [RESULT])),
        ("unexpected `tool_use_id`", ("a", [TEXT], [RESULT])),
        ("unexpected `tool_use_id`", ("a", [CALL], [RESULT], [TEXT], [RESULT])),
        ("single result", ("a", [CALL], [RESULT, RESULT])),
        ("must come first", ("a", [CALL], [TEXT, RESULT])),
        ("must be unique", ("a", [CALL, CALL], [RESULT])),
        ("must be unique", ("a", [CALL], [RESULT], [CALL], [RESULT])),
        ("non-empty", ("a", [{"type": "text", "text": ""}], "b")),
        ("non-whitespace", (" \n",)),
        ("non-empty content", ("a", [], "b")),
        ("non-empty content", ("",)),
        ("signature: Field required", ("a", [{"type": "thinking", "thinking": "t"}, TEXT], "b")),
        ("signature: Field required", ("a", [{**THOUGHT, "signature": ""}, TEXT], "b")),
        ("Invalid `signature`", ("a", [{**THOUGHT, "signature": signature("other")}, TEXT], "b")),
        ("final block", ("a", [THOUGHT], "b")),
        ("valid dictionary", ("a", [{**CALL, "input": "{}"}], [RESULT])),
        ("pattern", ("a", [{**CALL, "id": "a b"}], [RESULT])),
        ("only be in `assistant`", ([CALL],)),
        ("only be in `user`", ("a", [RESULT], "b")),
        ("does not match", ("a", [{"type": "invented"}], "b")),
        ("Extra inputs", ("a", [{**TEXT, "note": 1}], "b")),
        ("if `is_error`", ("a", [CALL], [{**RESULT, "content": "", "is_error": True}])),
        ("end with a user", ("a", [TEXT])),
        ("surrogate", ("a \ud800",)),
    ],
)
def test_a_wrong_conversation_is_refused(what: str, contents: tuple[Any, ...]) -> None:
    assert what in (problem(conversation(*contents)) or "")


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        (
            "first message",
            {"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]},
        ),
        ("at least one", {"messages": []}),
        ("role", {"messages": [{"role": "system", "content": "a"}]}),
        ("max_tokens", {"max_tokens": 0}),
        ("model", {"model": ""}),
        ("unique", {"tools": [TOOL, TOOL]}),
        ("input_schema", {"tools": [{"name": "a", "input_schema": {}}]}),
        ("non-empty", {"system": [{"type": "text", "text": ""}]}),
        ("thinking.type", {"thinking": {"type": "disabled"}}),
        ("thinking.type", {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        ("Extra inputs", {"invented": 1}),
        (
            "maximum of 4",
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
        ),
    ],
)
def test_a_wrong_request_is_refused(what: str, changed: dict[str, Any]) -> None:
    assert what in (problem({**GOOD, **changed}) or "")


def test_runs_of_calls_end_a_reply_and_the_rest_answers_the_results() -> None:
    prompt = {
        "role": "user",
        "content": "@text a\n@tool x {}\n@tool y {}\n@text b\n@tool z {}\nwords\n@text c",
    }
    messages: list[dict[str, Any]] = [prompt]
    words = []
    for _ in range(4):
        words.append([directive.word for directive in script(messages).directives])
        messages += [{"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}]
    assert words == [["text", "tool", "tool"], ["text", "tool"], ["text"], ["text"]]


def test_the_newest_text_with_directives_directs() -> None:
    messages = [{"role": "user", "content": "@text old"}, {"role": "user", "content": "@text new"}]
    assert script(messages).directives[0].rest == "new"


def test_the_cache_reads_what_was_written_and_only_that() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    cache = PromptCache()
    long = {"type": "text", "text": "x" * 4_000}
    first = conversation([{**long, **mark}])
    assert cache.count(first).read == 0
    second = conversation([long], [TEXT], [{**TEXT, **mark}])
    counted = cache.count(second)
    assert counted.read > 1_000
    assert counted.written < 50
    assert cache.count(conversation([{**long, "text": "y" * 4_000, **mark}])).read == 0
    assert cache.count({**first, "model": "other"}).read == 0


async def exchange(port: int, body: Any, **headers: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    sent = {"x-api-key": "k", "anthropic-version": "1", "connection": "close", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
    head = f"POST /v1/messages HTTP/1.1\r\n{lines}content-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1]), answer


@pytest.mark.anyio
async def test_a_missing_key_is_401_and_a_wrong_body_400() -> None:
    async with serving() as double:
        assert (await exchange(double.port, GOOD, **{"x-api-key": ""}))[0] == 401
        assert (await exchange(double.port, GOOD, authorization="Bearer t", **{"x-api-key": ""}))[0] == 200
        assert (await exchange(double.port, GOOD, **{"anthropic-version": ""}))[0] == 400
        assert (await exchange(double.port, []))[0] == 400
        assert len(double.refusals) == 2


@pytest.mark.anyio
async def test_a_reply_is_real_sse() -> None:
    async with serving() as double:
        status, answer = await exchange(double.port, conversation("@text hello\n@usage 12 34\n@stop refusal"))
    assert status == 200
    for part in (b"event: message_start", b"event: ping", b'"hello"', b'"refusal"', b'"output_tokens": 34'):
        assert part in answer
    assert answer.endswith(b"0\r\n\r\n")


def test_it_runs_alone_and_logs_without_the_key(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "tests.double", "0", str(log)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        status, _ = asyncio.run(exchange(port, GOOD, **{"x-api-key": "s3cret"}))
        process.kill()
    line = json.loads(log.read_text())
    assert (status, line["status"], line["credential"]) == (200, 200, True)
    assert "s3cret" not in log.read_text()
