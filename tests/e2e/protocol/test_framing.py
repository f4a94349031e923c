"""Whatever comes on stdin: each line gets what JSON-RPC says or nothing, the next is answered (§7)."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.e2e.client import start_agent
from tests.e2e.wire import CODES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.client import RawClient

pytestmark = pytest.mark.anyio

METHODS = (
    "initialize",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/prompt",
    "session/cancel",
    "session/close",
    "session/delete",
    "session/list",
    "sessions/list",
    "config/set",
    "session/set_mode",
    "authenticate",
    "$/cancel_request",
    "_x",
    "nope",
    "",
)


def any_json(dice: random.Random, depth: int = 0) -> Any:
    """A JSON value of whatever kind."""
    kind = dice.randrange(11 if depth < 3 else 8)
    match kind:
        case 0:
            return None
        case 1:
            return dice.choice((True, False))
        case 2:
            return dice.choice((0, -1, 7, 2**31, 2**63, 2**70, -(2**70)))
        case 3:
            return dice.choice((1.5, -0.0, 1e308, 1e-320))
        case 4 | 5:
            return dice.choice(("", "x", "é\0\U0001f600", "/", "..", "\ud800", "a" * 300, "1", "\n"))
        case 6:
            return {}
        case 7:
            return []
        case 8:
            return [any_json(dice, depth + 1) for _ in range(dice.randrange(4))]
        case _:
            keys = (
                "sessionId",
                "cwd",
                "prompt",
                "type",
                "text",
                "requestId",
                "configId",
                "value",
                "_meta",
                "x",
            )
            return {dice.choice(keys): any_json(dice, depth + 1) for _ in range(dice.randrange(4))}


def message(dice: random.Random) -> dict[str, Any]:
    """Something like a JSON-RPC message. It never asks for a session in a folder that exists."""
    made: dict[str, Any] = {"jsonrpc": dice.choice(("2.0", "2.0", "2.0", "2.0", "1.0", 2, None))}
    if dice.random() < 0.7:
        made["id"] = dice.choice((dice.randrange(1000), str(dice.randrange(9)), any_json(dice)))
    if dice.random() < 0.9:
        made["method"] = dice.choice((*METHODS, any_json(dice)))
    if dice.random() < 0.8:
        made["params"] = any_json(dice)
    if dice.random() < 0.1:
        made[dice.choice(("result", "error"))] = any_json(dice)
    return made


def garbage(seed: int) -> Iterator[bytes]:
    """Lines without their ends."""
    dice = random.Random(seed)
    while True:
        kind = dice.random()
        line = json.dumps(message(dice) if kind < 0.7 else any_json(dice)).encode()
        if kind < 0.35 and line:
            # Broken: cut, doubled, or with other octets in it.
            at = dice.randrange(len(line))
            line = dice.choice((line[:at], line + line, line[:at] + dice.randbytes(3) + line[at:]))
        elif kind > 0.95:
            line = dice.randbytes(dice.randrange(40))
        elif kind > 0.94:
            line = b"[" * dice.randrange(2000)
        if dice.random() < 0.1:
            line += b"\r"
        yield line.replace(b"\n", b"")


async def next_is_answered(client: RawClient) -> None:
    """A valid request is answered with its own id."""
    assert (await client.call("session/list", {}))["sessions"] == []


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.chaos)])
async def test_thousands_of_lines_of_anything(tmp_path: Path, count: int) -> None:
    async with start_agent(tmp_path) as client:
        await client.initialize()
        client.made = 10**6  # ids that are in no garbage
        await next_is_answered(client)
        lines = garbage(seed=6)
        for _ in range(count // 5_000):
            batch = [next(lines) for _ in range(5_000)]
            await client.send_raw(b"".join(line + b"\n" for line in batch))
            await next_is_answered(client)
        assert client.stderr == b""
        for answer in client.messages:
            assert "method" not in answer, answer
            if "error" in answer:
                assert answer["error"]["code"] in CODES, answer
                assert isinstance(answer["id"], str | int | float | None)
        asked_for_nothing = [a for a in client.messages if "result" in a and a["id"] is None]
        assert asked_for_nothing == []


async def test_the_longest_and_the_oddest_lines(tmp_path: Path) -> None:
    async with start_agent(tmp_path) as client:
        await client.initialize()
        await next_is_answered(client)
        front = psutil.Process(client.process.pid)
        huge = b"x" * (64 * 2**20)
        head = b'{"jsonrpc":"2.0","id":"huge","method":"session/prompt","params":{"sessionId":"'
        for line, id_, codes in (
            (huge, None, {-32600, -32700}),
            (head + huge + b'"}}', "huge", {-32602, -32600}),
            (b"\0" * 1000, None, {-32700}),
            (b'{"a":' * 100_000, None, {-32700}),
            (b'{"jsonrpc":"2.0","id":1e999,"method":"x"}', None, {-32600, -32700}),
            (b'{"jsonrpc":"2.0","id":true,"method":"session/list"}', None, {-32600}),
            (b'{"jsonrpc":"2.0","id":null,"method":"session/list"}', None, {-32600}),
            (b'{"jsonrpc":"2.0","id":"\\ud800","method":"no/such"}', "\ufffd", {-32601}),
            (b'{"jsonrpc":"2.0","id":-5,"method":"no/such"}', -5, {-32601}),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"no/such"}', 1.5, {-32601}),
            (b'{"jsonrpc":"2.0","id":"","method":"no/such"}\r', "", {-32601}),
            (b'{"jsonrpc":"2.0","id":"nul","method":"a\\u0000b"}', "nul", {-32601}),
            (b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', None, {-32600}),
        ):
            seen = len(client.messages)
            await client.send_raw(line + b"\n")
            await next_is_answered(client)
            (answer,) = client.messages[seen:-1]
            assert answer["id"] == id_, line[:80]
            assert answer["error"]["code"] in codes, line[:80]
        assert front.memory_info().rss < 400 * 2**20
        # Two requests with one id are two requests.
        await client.send_raw(b'{"jsonrpc":"2.0","id":"twin","method":"session/list"}\n' * 2)
        await client.wait_until(lambda: len(client.answers("twin")) == 2)
        # In pieces, and several at once.
        for octet in b'{"jsonrpc":"2.0","id":"slow","method":"no/such"}\n\n\r\n  \n':
            await client.send_raw(bytes([octet]))
        assert (await client.answer_to("slow"))["error"]["code"] == -32601
        await next_is_answered(client)
