"""A prompt's content and answer, what waits behind it, what ends it, commands, plans (protocol §4, §5)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio


def text(words: str) -> dict[str, str]:
    """A text block."""
    return {"type": "text", "text": words}


async def prompted(r: Rig, session: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """The answer to a prompt of these blocks."""
    return await r.client.request("session/prompt", {"sessionId": session, "prompt": list(blocks)})


def meant_refusals(r: Rig) -> None:
    """What the model has refused so far was to be refused."""
    r.double.requests[:] = [request for request in r.double.requests if request.status != 400]


async def test_every_kind_of_content_reaches_the_model_as_text(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    blob = base64.b64encode(b"\0\1\2").decode()
    answer = await prompted(
        r,
        session,
        text("look\n@text seen"),
        {
            "type": "resource",
            "resource": {"uri": "file:///a/main.tf", "text": "resource {}", "mimeType": "x/tf"},
        },
        {
            "type": "resource",
            "resource": {"uri": "file:///a/b.bin", "blob": blob, "mimeType": "application/zip"},
        },
        {"type": "resource_link", "uri": "file:///a/c.md", "name": "c.md", "title": None, "size": 12},
        {"type": "image", "mimeType": "image/png", "data": blob, "annotations": {"audience": ["user"]}},
        {"type": "audio", "mimeType": "audio/wav", "data": blob},
    )
    assert answer["result"]["stopReason"] == "end_turn"
    asked = r.asked()
    for shown in ("file:///a/main.tf", "resource {}", "file:///a/b.bin", "application/zip", "file:///a/c.md"):
        assert shown in asked
    assert "[image: image/png]" in asked
    assert "[audio: audio/wav]" in asked
    assert blob not in asked


async def test_a_prompt_that_holds_nothing_or_nonsense_is_refused(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    bad: Any
    for bad in (
        [],
        [{}],
        [{"type": "video"}],
        [{"type": "text"}],
        [{"type": "text", "text": 7}],
        "hi",
        None,
        [7],
    ):
        params = {"sessionId": session, "prompt": bad}
        error = (await r.client.request("session/prompt", params))["error"]
        assert error["code"] == -32602, bad
        assert any(field.startswith("prompt") for field in error["data"]), bad
    assert r.client.updates(session, "agent_message_chunk") == []


async def test_usage_is_the_sum_over_the_turn_and_updates_tell_context_and_cost(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    prompt = "@usage 1000 100\n@tool list_files {}\n@usage 2000 50\n@text done"
    usage = (await r.client.prompt(session, prompt))["result"]["usage"]
    assert usage == {"inputTokens": 3000, "outputTokens": 150, "totalTokens": 3150}
    told = r.client.updates(session, "usage_update")
    assert [(u["used"], u["size"]) for u in told] == [(1100, 1_000_000), (2050, 1_000_000)]
    assert [u["cost"]["currency"] for u in told] == ["USD", "USD"]
    assert told[1]["cost"]["amount"] == pytest.approx((3000 * 2 + 150 * 10) / 1e6)


async def test_each_stop_reason_says_what_happened(r: Rig, work: Path) -> None:
    for directives, reason in (
        ("@text x\n@stop max_tokens", "max_tokens"),
        ("@text no\n@stop refusal", "refusal"),
        ("@text x\n@stop end_turn", "end_turn"),
        ("@text x\n@stop stop_sequence", "end_turn"),
        ('@forever list_files {"path": "."}', "max_turn_requests"),
    ):
        session = await r.client.new_session(work)
        result = (await r.client.prompt(session, directives))["result"]
        assert result["stopReason"] == reason, directives
        assert result["usage"].keys() == {"inputTokens", "outputTokens", "totalTokens"}


async def test_credentials_that_the_model_refuses_are_an_error_of_their_own(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    for status, kind in ((401, "authentication_error"), (403, "permission_error")):
        error = (await r.client.prompt(session, f"@fail {status} {kind} 1\n@text {status}"))["error"]
        assert error["code"] == -32000
        assert "sk-test-secret" not in str(error)
    assert (await r.client.prompt(session, "@text works"))["result"]["stopReason"] == "end_turn"


async def test_thought_and_text_have_one_message_id_a_message(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    await r.client.prompt(session, "@think a b c\n@deltas 400\n@tool list_files {}\n@text second message")
    chunks = r.client.updates(session, "agent_message_chunk", "agent_thought_chunk")
    first, second = dict.fromkeys(chunk["messageId"] for chunk in chunks)
    assert "".join(c["text"] for c in chunks if c["messageId"] == second) == "second message"
    thoughts = [c for c in chunks if c["type"] == "agent_thought_chunk"]
    assert {c["messageId"] for c in thoughts} == {first}
    assert "".join(c["text"] for c in thoughts) == "a b c"


async def test_twelve_megabytes_are_read_and_what_no_model_takes_is_refused(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    await r.client.prompt(session, "@text before")
    blocks = text("say read\n"), text("0123456789abcdé " * 750_000)
    error = (await prompted(r, session, *blocks))["error"]
    assert error["code"] == -32602
    assert "too long" in error["data"]["prompt"]
    meant_refusals(r)
    # It is not sent again, which would fail each time; all else is as it was.
    assert (await r.client.prompt(session, "@text after"))["result"]["stopReason"] == "end_turn"
    assert "before" in r.asked()
    assert len(r.asked()) < 10_000
    await r.client.call("session/set_model", {"sessionId": session, "modelId": "offline"})
    assert (await prompted(r, session, *blocks))["result"]["stopReason"] == "end_turn"
    assert "read\nI did not understand" in r.client.text(session)
    # Each line of a replay is short enough for every client too, and nothing of the text is lost.
    await r.client.call("session/load", {"sessionId": session, "cwd": str(work), "mcpServers": []})
    assert r.client.text(session, "user_message_chunk").count("0123456789abcdé ") == 2 * 750_000
    await r.client.call("session/delete", {"sessionId": session})


async def test_eight_prompts_wait_in_order_and_a_ninth_is_told_busy(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    first = await r.client.begin_prompt(session, "@text zero\n@sleep 0.5")
    await r.client.wait_text(session, "zero")
    waiting = [await r.client.begin_prompt(session, f"@text -{n}") for n in range(1, 9)]
    ninth = await r.client.prompt(session, "@text never")
    assert ninth["error"]["code"] == -32603
    assert "busy" in ninth["error"]["data"]["details"]
    for id_ in (first, *waiting):
        assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn"
    assert r.client.text(session) == "zero-1-2-3-4-5-6-7-8"
    order = [m["id"] for m in r.client.messages if m.get("id") in waiting and "method" not in m]
    assert order == waiting


async def test_what_waits_is_not_run_after_a_turn_that_did_not_end_well(r: Rig, work: Path) -> None:
    for ending in (
        "@text cut\n@stop max_tokens",
        "@text no\n@stop refusal",
        "@fail 400 invalid_request_error 9",
    ):
        session = await r.client.new_session(work)
        first = await r.client.begin_prompt(
            session, f"@text plan\n@sleep 0.2\n@tool list_files {{}}\n{ending}"
        )
        await r.client.wait_text(session, "plan")
        waiting = [await r.client.begin_prompt(session, f"now apply it {n}\n@text x") for n in range(3)]
        for id_ in waiting:
            assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled", ending
        assert (await r.client.answer_to(first)).get("result", {}).get("stopReason") != "end_turn"
        assert r.client.text(session).count("Not run") == 3
        assert "apply" not in str(r.records(session))
        assert (await r.client.prompt(session, "@text goes on"))["result"]["stopReason"] == "end_turn"
        assert "apply" not in r.asked()
    meant_refusals(r)


async def test_a_cancel_ends_the_running_turn_and_the_waiting_ones(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    first = await r.client.begin_prompt(session, "@text streamed so far\n@sleep 30")
    await r.client.wait_text(session, "so far")
    waiting = [await r.client.begin_prompt(session, "waits\n@text x") for _ in range(2)]
    await r.client.notify("session/cancel", {"sessionId": session})
    for id_ in (first, *waiting):
        result = (await r.client.answer_to(id_))["result"]
        assert result["stopReason"] == "cancelled"
        assert result["usage"].keys() == {"inputTokens", "outputTokens", "totalTokens"}
    await r.client.prompt(session, "@text next")
    assert "streamed so far" in r.asked()
    assert "waits" not in r.asked()
    # A cancel with nothing to end is no news.
    await r.client.notify("session/cancel", {"sessionId": session})
    assert (await r.client.prompt(session, "@text still"))["result"]["stopReason"] == "end_turn"


async def test_a_cancelled_tool_is_stopped(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    command = "echo begun; sleep 300.0625; touch after"
    turn = await r.client.begin_prompt(session, f'@tool bash {{"command": "{command}"}}')
    await r.client.wait_until(lambda: "begun" in str(r.client.updates(session, "tool_call_update")))
    await r.client.call("session/cancel", {"sessionId": session})
    assert (await r.client.answer_to(turn))["result"]["stopReason"] == "cancelled"
    assert set(r.statuses(session).values()) == {"failed"}
    worker = r.client.worker(session)
    assert worker is not None
    await r.client.prompt(session, "@text after the tools are gone")
    assert worker.children(recursive=True) == []


async def test_a_request_is_cancelled_by_its_id(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    first = await r.client.begin_prompt(session, "@text one\n@sleep 0.6\n@text end")
    await r.client.wait_text(session, "one")
    second, third = [await r.client.begin_prompt(session, f"@text {n}") for n in ("two", "three")]
    await r.client.notify("$/cancel_request", {"requestId": second})
    unknown: Any
    for unknown in (424242, str(first), None, {}, "x"):
        await r.client.notify("$/cancel_request", {"requestId": unknown})
    reasons = [(await r.client.answer_to(id_))["result"]["stopReason"] for id_ in (second, first, third)]
    assert reasons == ["cancelled", "end_turn", "end_turn"]
    assert r.client.text(session) == "oneendthree"
    running = await r.client.begin_prompt(session, "@text four\n@sleep 30")
    await r.client.wait_text(session, "four")
    await r.client.notify("$/cancel_request", {"requestId": running})
    assert (await r.client.answer_to(running))["result"]["stopReason"] == "cancelled"


async def test_commands_are_announced_and_run_from_a_prompt(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    await r.client.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    announced = r.client.updates(session, "available_commands_update")[0]["availableCommands"]
    names = [command["name"] for command in announced]
    assert {"compact", "clear", "status", "rename", "help"} <= set(names)
    assert all(command["description"] for command in announced)

    async def run(command: str) -> str:
        seen = len(r.client.text(session))
        result = (await r.client.prompt(session, command))["result"]
        assert result["stopReason"] == "end_turn"
        return r.client.text(session)[seen:]

    asked = len(r.double.requests)
    told = await run("/help")
    assert all(f"/{name}" in told for name in names)
    unknown = await run("/deploy now")
    assert "/deploy" in unknown
    assert all(f"/{name}" in unknown for name in names)
    status = await run("/status")
    assert str(work) in status
    assert "plan" in status
    assert "claude-sonnet-5-5" in status
    await run("/rename My title")
    assert r.client.updates(session, "session_info_update")[-1]["title"] == "My title"
    (listed,) = (await r.client.call("session/list", {"cwd": str(work)}))["sessions"]
    assert listed["title"] == "My title"
    assert len(r.double.requests) == asked, "no command above asks the model"

    await run("//help is text\n@text as text")
    assert '"/help is text' in r.asked()
    await run("/etc/hosts is a file\n@text too")
    assert "/etc/hosts is a file" in r.asked()
    await run("my secret word is xyzzy\n@text " + "long " * 400)
    assert "compacted" in await run("/compact keep the word\n@text The summary.")
    await run("@text after it")
    assert "xyzzy" not in r.asked()
    assert "cleared" in await run("/clear")
    await run("@text anew")
    assert "summary" not in r.asked()
    seen = len(r.client.updates(session))
    await r.client.call("session/load", {"sessionId": session, "cwd": str(work), "mcpServers": []})
    replayed = str(r.client.updates(session)[seen:])
    assert "anew" in replayed
    assert "xyzzy" not in replayed


async def test_the_plan_is_sent_as_the_todo_tool_keeps_it(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    todo = (
        '@tool todo {"entries": [{"content": "read", "status": "completed"},'
        ' {"content": "write", "status": "in_progress"}, {"content": "test", "status": "pending"}]}'
    )
    await r.client.prompt(session, todo)
    (plan,) = r.client.updates(session, "plan")
    assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
        ("read", "completed"),
        ("write", "in_progress"),
        ("test", "pending"),
    ]
    assert {entry["priority"] for entry in plan["entries"]} <= {"high", "medium", "low"}


async def test_kinds_of_tools_and_a_sub_agents_calls(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    (work / "f").write_text("x")
    calls = {
        'read_file {"path": "f"}': "read",
        "list_files {}": "read",
        'glob {"pattern": "*"}': "search",
        'grep {"pattern": "x"}': "search",
        'write_file {"path": "g", "content": ""}': "edit",
        'edit_file {"path": "f", "old_string": "x", "new_string": "y"}': "edit",
        'bash {"command": "true"}': "execute",
        'todo {"entries": []}': "other",
        "no_such_tool {}": "other",
    }
    await r.client.prompt(session, "\n".join(f"@tool {call}" for call in calls))
    told = r.client.updates(session, "tool_call")
    assert [update["kind"] for update in told] == list(calls.values())
    await r.client.prompt(session, '@tool agent {"prompt": "@tool list_files {}", "type": "explore"}')
    agent, inner = r.client.updates(session, "tool_call")[len(calls) :]
    assert agent["kind"] == "execute"
    for update in r.client.updates(session, "tool_call", "tool_call_update"):
        if update["toolCallId"] == inner["toolCallId"]:
            assert update["_meta"] == {"iac-code": {"parentToolCallId": agent["toolCallId"]}}
