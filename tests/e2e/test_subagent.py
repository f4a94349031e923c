"""Sub-agents, end to end: what is shown of them, whom they ask, and what becomes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import permission
from tests.e2e.rig import running_command, until

if TYPE_CHECKING:
    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio


def tool(name: str, **given: Any) -> str:
    return f"@tool {name} {json.dumps(given)}"


def agent(*lines: str, kind: str = "general") -> str:
    """A call of a sub-agent whose model is directed by these lines."""
    return tool("agent", prompt="\n".join(lines), type=kind)


def parent_of(update: dict[str, Any]) -> str | None:
    found = update.get("_meta", {}).get("iac-code", {}).get("parentToolCallId")
    return found if isinstance(found, str) else None


def calls(r: Rig, session: str) -> dict[str, tuple[str, str | None]]:
    """Title and parent of each call, in order."""
    return {u["toolCallId"]: (u["title"], parent_of(u)) for u in r.client.updates(session, "tool_call")}


def results(r: Rig, session: str) -> list[str]:
    return [record["text"] for record in r.records(session) if record["kind"] == "tool_result"]


def asked(r: Rig) -> list[dict[str, Any]]:
    return [m for m in r.client.messages if m.get("method") == "session/request_permission"]


async def allow_always(r: Rig, session: str, lines: str) -> None:
    """Grant the tools that these lines call."""
    prompt = await r.client.begin_prompt(session, lines)
    answered: set[Any] = set()
    while not r.client.answers(prompt):
        await r.client.wait_until(
            lambda: bool(r.client.answers(prompt)) or any(q["id"] not in answered for q in asked(r))
        )
        for question in asked(r):
            if question["id"] not in answered:
                answered.add(question["id"])
                await r.client.respond(question, permission(question, "allow_always"))


async def test_its_calls_are_shown_below_the_call_that_started_it_and_its_tokens_count(r: Rig) -> None:
    (r.work / "a.txt").write_text("needle\n")
    session = await r.client.new_session(r.work)
    explorer = agent(
        "@usage 100 10", tool("grep", pattern="needle"), "@usage 100 10\n@text found it", kind="explore"
    )
    answer = await r.client.prompt(session, f"@usage 1 1\n{explorer}\n@usage 1 1\n@text thanks")
    (outer, outer_shown), (inner, inner_shown) = calls(r, session).items()
    assert outer_shown == ("Sub-agent (explore): @usage 100 10", None)
    assert inner_shown[1] == outer
    assert inner != outer
    below = [u for u in r.client.updates(session, "tool_call_update") if u["toolCallId"] == inner]
    assert {parent_of(u) for u in below} == {outer}
    assert r.statuses(session) == {outer: "completed", inner: "completed"}
    assert results(r, session) == ["found it"]
    assert r.client.text(session) == "thanks"
    assert answer["result"]["usage"] == {"inputTokens": 202, "outputTokens": 22, "totalTokens": 224}


async def test_it_asks_the_user_like_any_other(r: Rig) -> None:
    r.client.answer_permission = None
    session = await r.client.new_session(r.work)
    await allow_always(r, session, f"{agent('@text granted')}\n@text ok")
    worker = agent(
        tool("write_file", path="a", content="x"), tool("write_file", path="b", content="x"), "@text did"
    )
    answered = asked(r)
    prompt = await r.client.begin_prompt(session, f"{worker}\n@text done")
    for kind in ("reject_once", "allow_once"):
        await r.client.wait_until(lambda: len(asked(r)) > len(answered))
        question = asked(r)[-1]
        call = question["params"]["toolCall"]
        assert parent_of(call) is not None
        assert calls(r, session)[call["toolCallId"]][1] == parent_of(call)
        answered.append(question)
        await r.client.respond(question, permission(question, kind))
    await r.client.answer_to(prompt)
    assert [(r.work / name).exists() for name in "ab"] == [False, True]


async def test_an_explorer_changes_nothing_and_may_run_in_plan_mode(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    attempt = (tool("write_file", path="a", content="x"), tool("bash", command="touch a"), "@text tried")
    await r.client.prompt(session, f"{agent(*attempt, kind='explore')}\n@text ok")
    assert not (r.work / "a").exists()
    assert "There is no tool 'write_file'" in str(r.client.updates(session, "tool_call_update"))
    await r.client.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    before = len(asked(r))
    await r.client.prompt(session, f"{agent('@text looked', kind='explore')}\n@text ok")
    await r.client.prompt(session, f"{agent('@text did')}\n@text ok")
    assert results(r, session)[1] == "looked"
    assert "plan mode" in results(r, session)[2]
    assert len(asked(r)) == before


async def test_what_it_can_do_and_what_becomes_of_what_it_cannot(r: Rig) -> None:
    # Those of sub-agents' sub-agents end at the second.
    session = await r.client.new_session(r.work)
    deepest = agent("@text too deep")
    nested = agent(agent(deepest, "@text second"), "@text first")
    await r.client.prompt(session, f"{nested}\n@text done")
    shown = calls(r, session)
    assert [parent for _, parent in shown.values()] == [None, *list(shown)[:2]]
    assert list(r.statuses(session).values()) == ["completed", "completed", "failed"]
    assert "There is no tool 'agent'" in str(r.client.updates(session, "tool_call_update"))
    # It may change what it has read, and leaves the user's plan alone.
    (r.work / "a.txt").write_text("old\n")
    edit = tool("edit_file", path="a.txt", old_string="old", new_string="new")
    plan = tool("todo", entries=[{"content": "mine"}])
    worker = agent(tool("read_file", path="a.txt"), edit, plan, "@text did")
    await r.client.prompt(session, f"{worker}\n@text ok")
    assert (r.work / "a.txt").read_text() == "new\n"
    assert r.client.updates(session, "plan") == []
    # When its model fails, the one who sent it is told and goes on.
    failing = agent("@fail 400 invalid_request_error 9", "@text no")
    answer = await r.client.prompt(session, f"{failing}\n@text went on")
    assert answer["result"]["stopReason"] == "end_turn"
    assert "could not go on" in results(r, session)[-1]
    assert "fault of its own" not in results(r, session)[-1]


async def test_explorers_of_one_reply_run_beside_each_other_four_at_a_time(r: Rig) -> None:
    r.client.answer_permission = "allow_always"
    session = await r.client.new_session(r.work)
    await r.client.prompt(session, f"{agent('@text granted', kind='explore')}\n@text ok")
    r.double.most_at_once = 0
    six = "\n".join(agent("@sleep 0.5", f"@text report {i}", kind="explore") for i in range(6))
    answer = await r.client.prompt(session, f"{six}\n@text all")
    assert answer["result"]["stopReason"] == "end_turn"
    assert r.double.most_at_once == 4
    assert sorted(results(r, session)[1:]) == [f"report {i}" for i in range(6)]


async def test_a_cancel_stops_the_whole_tree_and_its_tokens_count(r: Rig) -> None:
    session = await r.client.new_session(r.work)
    inner = agent("@usage 100 10", tool("bash", command="sleep 77.01"), "@text no")
    outer = agent("@usage 100 10", inner, "@text no")
    prompt = await r.client.begin_prompt(session, f"@usage 1 1\n{outer}\n@text no")
    await until(lambda: running_command("sleep 77.01") != [])
    await r.client.notify("session/cancel", {"sessionId": session})
    answer = await r.client.answer_to(prompt)
    assert answer["result"]["stopReason"] == "cancelled"
    assert answer["result"]["usage"]["inputTokens"] == 201
    assert list(r.statuses(session).values()) == ["failed"] * 3
    await until(lambda: running_command("sleep 77.01") == [])
    assert (await r.client.prompt(session, "@text next"))["result"]["stopReason"] == "end_turn"


async def test_one_that_dies_with_its_worker_is_told_and_not_run_again(r: Rig) -> None:
    r.client.answer_permission = None
    session = await r.client.new_session(r.work)
    granted = agent(tool("bash", command="true"), "@text granted")
    await allow_always(r, session, f"{granted}\n@text ok")
    apply = tool("bash", command="echo once >> applied; sleep 77.02")
    prompt = await r.client.begin_prompt(
        session,
        f"{agent(apply, '@text no')}\n{tool('bash', command='echo again >> applied')}\n@text done",
    )
    await until(lambda: running_command("sleep 77.02") != [])
    before = len(asked(r))
    r.kill_worker(session)
    # Bash is granted for the session, but what the sub-agent did with it nobody knows.
    await r.client.wait_until(lambda: len(asked(r)) > before)
    question = asked(r)[-1]
    assert "An earlier call of agent" in str(question["params"]["toolCall"]["content"])
    await r.client.respond(question, permission(question, "reject_once"))
    assert (await r.client.answer_to(prompt))["result"]["stopReason"] == "end_turn"
    assert (r.work / "applied").read_text() == "once\n"
    assert running_command("sleep 77.02") == []
    assert "interrupted" in results(r, session)[-2]
    assert set(list(r.statuses(session).values())[-3:]) == {"failed"}


async def test_a_question_of_one_that_died_is_taken_back(r: Rig) -> None:
    r.client.answer_permission = None
    session = await r.client.new_session(r.work)
    await allow_always(r, session, f"{agent('@text granted')}\n@text ok")
    before = len(asked(r))
    prompt = await r.client.begin_prompt(
        session, f"{agent(tool('bash', command='touch a'), '@text no')}\n@text on"
    )
    await r.client.wait_until(lambda: len(asked(r)) > before)
    question = asked(r)[-1]
    r.kill_worker(session)
    assert (await r.client.answer_to(prompt))["result"]["stopReason"] == "end_turn"
    await r.client.respond(question, permission(question, "allow_once"))
    await r.client.prompt(session, "@text next")
    assert not (r.work / "a").exists()
    assert set(r.statuses(session).values()) == {"completed", "failed"}
    taken_back = [m for m in r.client.messages if m.get("method") == "$/cancel_request"]
    assert [m["params"]["requestId"] for m in taken_back] == [question["id"]]
