"""What a client may answer to a permission request, and what comes of it (protocol §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

RESULTS: list[tuple[Any, bool]] = [
    ({"outcome": {"outcome": "selected", "optionId": "allow_once"}}, True),
    ({"outcome": {"outcome": "selected", "optionId": "reject_once"}}, False),
    ({"outcome": {"outcome": "selected"}}, False),
    ({"outcome": {"outcome": "selected", "optionId": "yes"}}, False),
    ({"outcome": {"outcome": "cancelled"}}, False),
    ({"outcome": "allowed", "option_id": "allow_once"}, True),
    ({"outcome": {"outcome": "allowed", "option_id": "allow_once"}}, True),
    ({"outcome": "allowed"}, True),
    ({"outcome": {"outcome": "allowed"}}, True),
    ({"outcome": "allowed", "option_id": "reject_once"}, False),
    ({"outcome": "allowed", "option_id": "sure"}, False),
    ({"outcome": "denied"}, False),
    ({"outcome": {"outcome": "denied"}}, False),
    ({"outcome": "maybe"}, False),
    ({"outcome": ["allowed"]}, False),
    ({"optionId": "allow_once"}, False),
    ({}, False),
    (None, False),
    ("allow_once", False),
    ([], False),
    (7, False),
]


async def asked(r: Rig, seen: int, number: int = 1) -> dict[str, Any]:
    """The `number`-th permission request after `seen` messages."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        found[:] = [m for m in r.client.messages[seen:] if m.get("method") == "session/request_permission"]
        return len(found) >= number

    await r.client.wait_until(look)
    return found[number - 1]


@pytest.fixture
def unanswered(r: Rig) -> Any:
    """The client answers no permission request by itself."""
    r.client.answer_permission = None
    yield
    r.client.answer_permission = "allow_once"


@pytest.mark.usefixtures("unanswered")
async def test_an_answer_means_what_the_table_says_and_else_no(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    errors: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "error": {"code": -32601, "message": "no"}},
        {"jsonrpc": "2.0", "error": "no"},
        {"error": None, "result": None},
    ]
    answers = [({"jsonrpc": "2.0", "result": result}, yes) for result, yes in RESULTS]
    answers += [(error, False) for error in errors]
    for number, (shown, allowed) in enumerate(answers):
        seen = len(r.client.messages)
        turn = await r.client.begin_prompt(
            session, f'@tool bash {{"command": "touch {number}"}}\n@text told: {number}'
        )
        request = await asked(r, seen)
        call = request["params"]["toolCall"]
        assert r.statuses(session)[call["toolCallId"]] == "pending"
        assert (call["kind"], call["rawInput"]) == ("execute", {"command": f"touch {number}"})
        assert call["title"]
        assert [option["optionId"] for option in request["params"]["options"]] == [
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
        ]
        assert all(o["name"] and o["kind"] == o["optionId"] for o in request["params"]["options"])
        await r.client.send({**shown, "id": request["id"]})
        await r.client.send({**shown, "id": request["id"]})  # a second time: ignored
        result = (await r.client.answer_to(turn))["result"]
        assert result["stopReason"] == "end_turn", shown
        assert (work / str(number)).exists() == allowed, shown
        assert r.statuses(session)[call["toolCallId"]] == ("completed" if allowed else "failed"), shown
        if not allowed:
            assert "Permission denied." in r.asked(), shown


@pytest.mark.usefixtures("unanswered")
async def test_always_holds_for_the_tool_in_the_session_and_widens_no_boundary(r: Rig, work: Path) -> None:
    for kind, ran in (("allow_always", True), ("reject_always", False)):
        session = await r.client.new_session(work)
        seen = len(r.client.messages)
        call = '@tool bash {"command": "touch %s"}'
        turn = await r.client.begin_prompt(session, call % f"first-{kind}")
        request = await asked(r, seen)
        await r.client.respond(request, {"outcome": {"outcome": "selected", "optionId": kind}})
        await r.client.answer_to(turn)
        seen = len(r.client.messages)
        await r.client.prompt(session, call % f"second-{kind}")
        assert not [m for m in r.client.messages[seen:] if m.get("method") == "session/request_permission"]
        assert (work / f"second-{kind}").exists() == ran
        if kind == "allow_always":
            turn = await r.client.begin_prompt(session, call % (work.parent / "outside"))
            request = await asked(r, seen)
            await r.client.respond(request, {"outcome": "denied"})
            await r.client.answer_to(turn)
            assert not (work.parent / "outside").exists()
        turn = await r.client.begin_prompt(session, '@tool write_file {"path": "other", "content": ""}')
        request = await asked(r, seen, 2 if kind == "allow_always" else 1)
        await r.client.respond(request, {"outcome": "denied"})
        assert (await r.client.answer_to(turn))["result"]["stopReason"] == "end_turn"


@pytest.mark.usefixtures("unanswered")
async def test_reads_run_unasked_inside_and_ask_outside(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    (work / "in").write_text("inside text")
    (work / ".env").write_text("SECRET=1")
    seen = len(r.client.messages)
    for call in (
        'read_file {"path": "in"}',
        "list_files {}",
        'glob {"pattern": "*"}',
        'grep {"pattern": "in"}',
    ):
        await r.client.prompt(session, f"@tool {call}")
    assert set(r.statuses(session).values()) == {"completed"}
    assert not [m for m in r.client.messages[seen:] if m.get("method") == "session/request_permission"]
    for path in ("/etc/hostname", ".env"):
        seen = len(r.client.messages)
        turn = await r.client.begin_prompt(session, f'@tool read_file {{"path": "{path}"}}')
        await r.client.respond(await asked(r, seen), {"outcome": "denied"})
        await r.client.answer_to(turn)
    assert "SECRET" not in r.asked()


@pytest.mark.usefixtures("unanswered")
async def test_a_request_that_was_withdrawn_is_told_and_its_answer_ignored(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    seen = len(r.client.messages)
    turn = await r.client.begin_prompt(session, '@tool bash {"command": "touch late"}')
    request = await asked(r, seen)
    await r.client.notify("session/cancel", {"sessionId": session})
    assert (await r.client.answer_to(turn))["result"]["stopReason"] == "cancelled"
    withdrawn = [
        m["params"]["requestId"] for m in r.client.messages[seen:] if m.get("method") == "$/cancel_request"
    ]
    assert withdrawn == [request["id"]]
    await r.client.respond(request, {"outcome": "allowed"})
    assert (await r.client.prompt(session, "@text next"))["result"]["stopReason"] == "end_turn"
    assert not (work / "late").exists()
    assert set(r.statuses(session).values()) == {"failed"}


async def test_an_edit_is_shown_as_a_diff_before_and_after(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    (work / "a.txt").write_text("old line\n")
    seen = len(r.client.messages)
    edit = '@tool edit_file {"path": "a.txt", "old_string": "old line", "new_string": "new line"}'
    await r.client.prompt(session, f'@tool read_file {{"path": "a.txt"}}\n@text read\n{edit}')
    request = await asked(r, seen)
    diffs = [c for c in request["params"]["toolCall"]["content"] if c["type"] == "diff"]
    (ended,) = [
        u
        for u in r.client.updates(session, "tool_call_update")
        if u.get("rawOutput") and u["toolCallId"] == request["params"]["toolCall"]["toolCallId"]
    ]
    for diff in (*diffs, *(c for c in ended["content"] if c["type"] == "diff")):
        assert (diff["oldText"], diff["newText"]) == ("old line\n", "new line\n")
        assert diff["path"] == str(work / "a.txt")
    assert len(diffs) == 1
    assert [c["type"] for c in ended["content"]].count("diff") == 1
