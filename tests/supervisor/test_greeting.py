"""The first request is answered before the front is there, and whatever is not plain is left to the front."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from supervisor.greeting import Greeting, greet
from supervisor.handshake import initialize_result

if TYPE_CHECKING:
    from collections.abc import Iterator

Pipes = tuple[int, int, int, int]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    """Both ends of a standard input and of a standard output: read, write, read, write."""
    ends = (*os.pipe(), *os.pipe())
    yield ends
    for end in ends:
        os.close(end)


def initialize(id_: Any = 1, **params: Any) -> bytes:
    given = {"protocolVersion": 1, "clientCapabilities": {}} | params
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": "initialize", "params": given}).encode() + b"\n"


@pytest.mark.parametrize("id_", [0, 7, -1, 2**60, "a-1", ""])
def test_a_plain_initialize_is_answered_at_once(pipes: Pipes, id_: int | str) -> None:
    stdin, typed, told, stdout = pipes
    capabilities = {"fs": {"readTextFile": True}}
    os.write(typed, initialize(id_, clientCapabilities=capabilities))
    assert greet(stdin, stdout) == Greeting(capabilities)
    answer = os.read(told, 65536)
    assert answer.endswith(b"}\n")
    assert json.loads(answer) == {"jsonrpc": "2.0", "id": id_, "result": initialize_result([])}


def test_what_follows_in_the_same_read_is_handed_on(pipes: Pipes) -> None:
    stdin, typed, _, stdout = pipes
    os.write(typed, initialize() + b'{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}\n{"half')
    assert greet(stdin, stdout).unread == (
        b'{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}\n{"half'
    )


@pytest.mark.parametrize(
    "first",
    [
        initialize()[:-1],
        initialize(clientCapabilities={"auth": {"terminal": True}}),
        initialize(clientCapabilities=[]),
        initialize(id_=None),
        initialize(id_=True),
        initialize(id_=1.5),
        initialize(id_="\ud800"),
        b"[" + initialize()[:-1] + b"]\n",
        b"\n" + initialize(),
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"clientCapabilities":{}}}\n',
        b'{"jsonrpc":"2.0","method":"initialize","params":{"clientCapabilities":{}}}\n',
    ],
)
def test_anything_else_is_handed_on_as_it_came(pipes: Pipes, first: bytes) -> None:
    stdin, typed, told, stdout = pipes
    os.set_blocking(typed, False)
    first = first[:60_000] + b"\n" if len(first) > 60_000 else first
    os.write(typed, first)
    assert greet(stdin, stdout) == Greeting(unread=first)
    os.set_blocking(told, False)
    with pytest.raises(BlockingIOError):
        os.read(told, 1)


def test_nothing_is_waited_for(pipes: Pipes) -> None:
    stdin, _, _, stdout = pipes
    assert greet(stdin, stdout) == Greeting()


def test_an_answer_without_room_is_left_to_be_written(pipes: Pipes) -> None:
    stdin, typed, told, stdout = pipes
    os.set_blocking(stdout, False)
    os.write(stdout, b"x" * 2**20)  # as much as fits
    os.write(typed, initialize())
    greeting = greet(stdin, stdout)
    assert greeting.capabilities == {}
    assert json.loads(greeting.unwritten)["id"] == 1
    assert set(os.read(told, 2**20)) == {ord("x")}
