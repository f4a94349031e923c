"""A client is owed one answer a request, and is asked under ids of its own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from shared.errors import INTERNAL_ERROR, RequestError
from supervisor.connection import Connection
from supervisor.effects import Ticket
from supervisor.stdio import OutputBuffer

if TYPE_CHECKING:
    from collections.abc import Callable


class Kept(OutputBuffer):
    """Keeps the lines instead of writing them."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []  # and nothing else: there is no event loop here

    def put(self, line: bytes, written: Callable[[], None] | None = None) -> None:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.lines.append(json.loads(line))
        if written is not None:
            written()


@pytest.fixture
def output() -> Kept:
    return Kept()


@pytest.fixture
def client(output: Kept) -> Connection:
    return Connection(output)


def opened(client: Connection, id_: Any) -> Ticket:
    ticket = Ticket(client.number, id_)
    client.open[ticket] = lambda: os.abort()
    return ticket


@pytest.mark.parametrize("id_", [0, 7, -1, 1.5, "a", "", '"\\\n', "\u00fc", 2**70])
def test_an_answer_carries_the_id_as_it_came(client: Connection, output: Kept, id_: Any) -> None:
    client.answer(opened(client, id_), {"a": 1})
    client.answer(opened(client, id_), b'{"a":1}')
    assert output.lines == [{"jsonrpc": "2.0", "id": id_, "result": {"a": 1}}] * 2


def test_a_request_is_answered_once_whoever_is_first(client: Connection, output: Kept) -> None:
    ticket = opened(client, 1)
    client.fail(ticket, RequestError(INTERNAL_ERROR, "first"))
    client.answer(ticket, {})
    client.fail(ticket, RequestError(INTERNAL_ERROR, "third"))
    assert [line["error"]["data"]["details"] for line in output.lines] == ["first"]


def test_two_requests_with_one_id_are_both_answered(client: Connection, output: Kept) -> None:
    first, second = opened(client, 1), opened(client, 1)
    client.answer(second, {"n": 2})
    client.answer(first, {"n": 1})
    assert [line["result"]["n"] for line in output.lines] == [2, 1]


def test_an_answer_leads_back_to_what_was_asked_and_counts_once(client: Connection, output: Kept) -> None:
    client.ask("s", "k1", "fs/read_text_file", b'{"path":"/a"}')
    client.ask("s", "k2", "fs/read_text_file", b"{}")
    ids = [line["id"] for line in output.lines]
    assert len(set(ids)) == 2
    assert all(isinstance(id_, str) for id_ in ids)
    assert output.lines[0]["params"] == {"path": "/a"}
    assert client.take_asked(ids[1]) == ("s", "k2")
    assert client.take_asked(ids[1]) is None
    assert client.take_asked(ids[0]) == ("s", "k1")


@pytest.mark.parametrize("id_", [None, 1, 1.0, True, "nothing", [], {}, ["1.1"]])
def test_an_answer_to_what_was_never_asked_is_nothing(client: Connection, id_: Any) -> None:
    client.ask("s", "k", "m", b"{}")
    assert client.take_asked(id_) is None


def test_a_withdrawn_request_is_told_and_its_late_answer_is_nothing(client: Connection, output: Kept) -> None:
    client.ask("s", "k", "session/request_permission", b"{}")
    client.ask("other", "k", "session/request_permission", b"{}")
    ids = [line["id"] for line in output.lines]
    client.withdraw("s", "k")
    client.withdraw("s", "k")
    assert output.lines[2:] == [
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": ids[0]}}
    ]
    assert client.take_asked(ids[0]) is None
    assert client.take_asked(ids[1]) == ("other", "k")


def test_clients_have_numbers_of_their_own() -> None:
    assert Connection(Kept()).number != Connection(Kept()).number
