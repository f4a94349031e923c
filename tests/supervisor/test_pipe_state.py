"""The pipe beside a shared agent answers what an agent lost, and says nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisor.pipe_state import LONGEST, PipeState


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def messages(octets: bytes) -> list[dict[str, Any]]:
    return [json.loads(each) for each in octets.splitlines()]


INITIALIZE = line(id=0, method="initialize", params={"protocolVersion": 1})


@pytest.fixture
def state() -> PipeState:
    """An editor that is greeted and has session `s`."""
    made = PipeState()
    made.sent(INITIALIZE)
    made.came(line(id=0, result={"protocolVersion": 1}))
    made.sent(line(id=1, method="session/new", params={"cwd": "/w", "mcpServers": [{"name": "m"}]}))
    made.came(line(id=1, result={"sessionId": "s", "modes": {}}))
    return made


def test_nothing_is_said_first_to_the_first_agent() -> None:
    assert PipeState().begin() == b""
    assert PipeState(b"preface\n").begin() == b"preface\n"


def test_open_requests_are_answered_once_when_the_agent_is_lost(state: PipeState) -> None:
    state.sent(line(id=2, method="session/prompt", params={"sessionId": "s"}))
    state.sent(line(id="x", method="session/list") + line(method="session/cancel", params={}))
    state.came(line(id="x", result={}))
    (lost,) = messages(state.lost())
    assert (lost["id"], lost["error"]["code"], lost["error"]["data"]["reason"]) == (2, -32603, "restarted")
    assert state.lost() == b""


@pytest.mark.parametrize("id_", [0, -1, 1.5, 2**70, "a", '"\\\n', "\u00fc\u2028", "\ud800"])
def test_an_answer_is_known_by_whatever_id(state: PipeState, id_: Any) -> None:
    state.sent(line(id=id_, method="session/list"))
    state.came(line(id=id_, result={}))
    assert state.lost() == b""


def test_the_next_agent_is_greeted_and_given_the_sessions_and_the_editor_hears_nothing_of_it(
    state: PipeState,
) -> None:
    state.lost()
    greeting, resume = messages(state.begin())
    assert (greeting["method"], greeting["params"]) == ("initialize", {"protocolVersion": 1})
    assert resume["method"] == "session/resume"
    assert resume["params"] == {"sessionId": "s", "cwd": "/w", "mcpServers": [{"name": "m"}]}
    update = line(method="session/update", params={"sessionId": "s"})
    answers = line(id=greeting["id"], result={}) + update + line(id=resume["id"], result={})
    assert state.came(answers[:40]) == b""
    assert state.came(answers[40:]) + state.came(b"rest") == update + b"rest"
    assert not state.is_quiet


def test_what_follows_the_last_of_the_pipes_own_answers_is_passed_on_half_said(state: PipeState) -> None:
    state.lost()
    greeting, resume = messages(state.begin())
    came = line(id=greeting["id"], result={}) + line(id=resume["id"], error={}) + b'{"half'
    assert state.came(came) == b'{"half'
    assert state.came(b'"}\n') == b'"}\n'


def test_a_session_that_was_closed_is_not_loaded_again(state: PipeState) -> None:
    state.sent(line(id=2, method="session/close", params={"sessionId": "s"}))
    state.came(line(id=2, result={}))
    state.lost()
    assert [message["method"] for message in messages(state.begin())] == ["initialize"]


def test_loads_and_forks_count_when_they_succeeded(state: PipeState) -> None:
    for id_, session in ((2, "good"), (3, "bad")):
        state.sent(line(id=id_, method="session/load", params={"sessionId": session, "cwd": "/w"}))
    state.came(line(id=2, result={}) + line(id=3, error={"code": -32602}))
    state.sent(line(id=4, method="session/fork", params={"sessionId": "s", "cwd": "/w"}))
    state.came(line(id=4, result={"sessionId": "forked"}))
    state.lost()
    resumed = [m["params"]["sessionId"] for m in messages(state.begin())[1:]]
    assert resumed == ["s", "good", "forked"]


def test_an_initialize_that_was_not_answered_is_asked_again_under_its_own_id() -> None:
    state = PipeState()
    state.sent(INITIALIZE)
    assert state.lost() == b""
    assert state.begin() == INITIALIZE
    assert messages(state.given_up("why"))[0]["error"]["data"]["details"] == "why"


def test_the_start_of_a_line_goes_to_the_agent_that_gets_its_end(state: PipeState) -> None:
    asked = line(id=7, method="session/list")
    state.sent(asked[:10])
    assert state.lost() == b""
    assert state.begin().endswith(b"\n" + asked[:10])
    state.sent(asked[10:])
    assert messages(state.lost())[0]["id"] == 7


def test_a_half_said_line_of_the_agent_is_ended(state: PipeState) -> None:
    state.came(b'{"jsonrpc":"2.0","method":"session/upd')
    assert state.lost() == b"\n"


def test_what_the_agent_asked_is_withdrawn_unless_it_was_answered(state: PipeState) -> None:
    state.came(b"".join(line(id=f"p.{n}", method="session/request_permission", params={}) for n in range(3)))
    state.sent(line(id="p.0", result={}))
    state.came(line(method="$/cancel_request", params={"requestId": "p.1"}))
    (withdrawn,) = messages(state.lost())
    assert withdrawn["method"] == "$/cancel_request"
    assert withdrawn["params"] == {"requestId": "p.2"}


@pytest.mark.parametrize("junk", [b"\n", b"[]\n", b"\xff\n", b"{}\n", b"[" * 5000 + b"\n", b'{"id":1}\n'])
def test_junk_from_the_editor_is_the_agents_business(state: PipeState, junk: bytes) -> None:
    state.sent(junk)
    assert state.lost() == b""


def test_a_line_without_end_is_not_kept(state: PipeState) -> None:
    for _ in range(3):
        state.sent(b"x" * (LONGEST // 2))
    state.lost()
    assert len(state.begin()) < 1000
    state.sent(b"\n" + line(id=9, method="session/list"))
    assert messages(state.lost())[0]["id"] == 9
