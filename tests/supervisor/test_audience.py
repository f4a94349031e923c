"""Who of a session's clients is sent what, and who is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from supervisor.audience import PERMISSION, Audience
from supervisor.connection import Connection
from supervisor.effects import AskClient, Ticket
from supervisor.turns import OpenTurn
from tests.supervisor.test_connection import Kept

if TYPE_CHECKING:
    from supervisor.stdio import OutputBuffer

READ = AskClient("k", "fs/read_text_file", b"{}")
ASK = AskClient("p", PERMISSION, b"{}")


@pytest.fixture
def audience() -> Audience:
    return Audience("s", "both")


def client(audience: Audience) -> Connection:
    made = Connection(Kept())
    audience.clients.add(made)
    return made


def lines(of: Connection) -> list[dict[str, Any]]:
    output: OutputBuffer = of.output
    assert isinstance(output, Kept)
    return output.lines


def turn(of: Connection, text: str = "hello", turn_id: str = "t1") -> OpenTurn:
    return OpenTurn(turn_id, Ticket(of.number, 1), [{"type": "text", "text": text}], {})


def test_permission_is_asked_of_all_and_files_of_the_one_that_prompted(audience: Audience) -> None:
    a, b = client(audience), client(audience)
    assert audience.ask(ASK, turn(a))
    assert audience.ask(READ, turn(a))
    assert [line["method"] for line in lines(a)] == [PERMISSION, READ.method]
    assert [line["method"] for line in lines(b)] == [PERMISSION]
    audience.remove(a)
    assert not audience.ask(READ, turn(a)), "nobody else offered it"
    assert not audience.ask(READ, None)
    audience.remove(b)
    assert not audience.ask(ASK, turn(a))


def test_a_client_that_comes_is_asked_what_is_open_once_and_never_for_files(audience: Audience) -> None:
    a = client(audience)
    audience.ask_again(a, [ASK, READ])
    audience.ask_again(a, [ASK, READ])
    assert [line["method"] for line in lines(a)] == [PERMISSION]


def test_the_first_answer_withdraws_it_from_the_others(audience: Audience) -> None:
    a, b = client(audience), client(audience)
    audience.ask(ASK, None)
    audience.withdraw(ASK.key, but=a)
    assert [line["method"] for line in lines(a)] == [PERMISSION]
    assert [line["method"] for line in lines(b)] == [PERMISSION, "$/cancel_request"]


def test_a_client_that_loads_gets_its_replay_alone_and_then_what_that_lacks(audience: Audience) -> None:
    a, b = client(audience), client(audience)
    load = Ticket(b.number, 7)
    audience.begin_load(load, dict)
    assert audience.receivers() == [a]
    recorded, waiting = turn(a, "recorded", "t1"), turn(a, "waiting", "t2")
    audience.echo(a, recorded)
    audience.echo(a, waiting)
    assert lines(b) == []
    audience.replays(load, b'{"messageId":"t1"}', [recorded, waiting])
    assert audience.end_load(load) is dict
    audience.catch_up(load, b, [recorded, waiting])
    (shown,) = lines(b)
    assert shown["params"]["update"]["content"]["text"] == "waiting"
    assert audience.receivers() == [a, b] or audience.receivers() == [b, a]


def test_a_client_that_leaves_while_it_loads_leaves_nothing(audience: Audience) -> None:
    a = client(audience)
    load = Ticket(a.number, 7)
    audience.begin_load(load, dict)
    audience.remove(a)
    assert audience.loading == {}
    assert audience.client_of(load) is None
    assert audience.end_load(load) is None
