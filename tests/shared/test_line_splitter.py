"""Lines are cut out of any stream in bounded memory, and one that is too long costs no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.jsonrpc import LineSplitter, Malformed

if TYPE_CHECKING:
    import random

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@given(st.lists(st.binary(max_size=12), max_size=12), st.randoms(use_true_random=False))
def test_lines_are_the_same_however_they_are_cut(pieces: list[bytes], chance: random.Random) -> None:
    stream = b"\n".join(pieces)
    splitter, found, at = LineSplitter(), [], 0
    while at < len(stream):
        step = chance.randrange(1, 6)
        found += splitter.feed(stream[at : at + step])
        at += step
    assert found == stream.split(b"\n")[:-1]


def test_an_empty_chunk_completes_nothing() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"") == []
    assert splitter.feed(b"a") == []
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\n") == [b"a"]


def test_a_line_of_exactly_the_limit_is_read() -> None:
    assert LineSplitter(limit=5).feed(b"12345\n") == [b"12345"]


def longer(head: bytes, limit: int = 10_000) -> Malformed:
    """What becomes of a line that begins so and is longer than the limit, fed in pieces."""
    splitter, stream = LineSplitter(limit), head + b"x" * (3 * limit) + b"\n" + PING + b"\n"
    found = [line for at in range(0, len(stream), 777) for line in splitter.feed(stream[at : at + 777])]
    assert found[1:] == [PING], "the line after it is lost"
    assert isinstance(found[0], Malformed)
    assert str(3 * limit + len(head)) in found[0].error.data["details"]
    return found[0]


@pytest.mark.parametrize(
    ("head", "id_"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"prompt":"', 7),
        (b'{"id":"a-1","jsonrpc":"2.0","params":{"', "a-1"),
        (b' { "jsonrpc" : "2.0" , "id" : -3 , "params":"', -3),
    ],
)
def test_a_line_that_is_too_long_is_refused_under_its_id(head: bytes, id_: int | str) -> None:
    found = longer(head)
    assert (found.id, found.error.code) == (id_, -32602)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b'{"jsonrpc":"2.0","method":"session/prompt","params":{"id":7,"prompt":"',
        b'{"params":{"a":1},"id":7,"x":"',
        b'{"jsonrpc":"2.0","id":1.5,"method":"m","params":"',
        b'{"jsonrpc":"2.0","id":1e3,"method":"m","params":"',
        b'{"jsonrpc":"2.0","id":' + b"1" * 25 + b',"method":"m","params":"',
        b'{"jsonrpc":"2.0","id":null,"method":"m","params":"',
        b'{"jsonrpc":"2.0","method":"m","params":{"a":"' + b"y" * 5000 + b'"},"id":7,"b":"',
    ],
)
def test_an_id_that_is_not_surely_the_lines_own_is_not_guessed(head: bytes) -> None:
    found = longer(head)
    assert (found.id, found.error.code) == (None, -32600)


def test_what_is_dropped_is_not_kept() -> None:
    splitter = LineSplitter(limit=1000)
    for _ in range(1000):
        splitter.feed(b"x" * 1000)
    assert sum(map(len, splitter._parts)) + len(splitter._dropped or b"") < 10_000
