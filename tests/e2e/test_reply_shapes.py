"""Whatever a model answers, and whatever goes wrong with its service: the turn ends as it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio


async def ask(r: Rig, text: str) -> tuple[str, dict[str, Any]]:
    """One prompt in a session of its own: the session and the answer."""
    session = await r.client.new_session(r.work)
    return session, await r.client.prompt(session, text)


async def goes_on(r: Rig, session: str) -> None:
    """The session still works, with all of its history."""
    answer = await r.client.prompt(session, "@text still-here")
    assert answer["result"]["stopReason"] == "end_turn", answer
    assert "still-here" in r.client.text(session)


async def test_replies_of_every_shape_end_the_turn_as_they_say(r: Rig) -> None:
    for directives, stop_reason in (
        ("@empty", "end_turn"),
        ("@think only thinking", "end_turn"),
        ("@text half\n@stop max_tokens", "max_tokens"),
        ("@text no\n@stop refusal", "refusal"),
        ("@text \n@tool list_files {}\n@text done", "end_turn"),
        ('@think hm\n@tool list_files {}\n@tool list_files {"path": "."}\n@text done', "end_turn"),
    ):
        session, answer = await ask(r, directives)
        assert answer["result"]["stopReason"] == stop_reason, directives
        await goes_on(r, session)


async def test_a_call_that_cannot_be_run_is_an_error_for_the_model_and_the_turn_goes_on(r: Rig) -> None:
    for directives, told in (
        ("@tool no_such_tool {}\n@text done", "There is no tool"),
        ('@tool read_file {"wrong": 1}\n@text done', "path"),
        ('@badjson read_file {"path": \n@text done', "not valid JSON"),
        ('@tool read_file {"path": "no-such-file"}\n@text done', "no-such-file"),
    ):
        session, answer = await ask(r, directives)
        assert answer["result"]["stopReason"] == "end_turn", directives
        assert "done" in r.client.text(session)
        assert told in r.asked(), directives
        assert list(r.statuses(session).values()) == ["failed"], directives
        await goes_on(r, session)


async def test_a_call_cut_by_the_output_limit_never_runs(r: Rig) -> None:
    call = '@tool write_file {"path": "cut.txt", "content": "half"}'
    session, answer = await ask(r, f"@stop max_tokens\n{call}\n@text smaller-now")
    assert not (r.work / "cut.txt").exists()
    assert "output limit" in r.asked()
    assert answer["result"]["stopReason"] == "end_turn"
    await goes_on(r, session)


async def test_the_same_call_again_and_again_is_told_and_then_ended(r: Rig) -> None:
    session, answer = await ask(r, "@forever list_files {}")
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert "in a row" in r.asked()
    assert len(r.double.requests) < 20
    await goes_on(r, session)


async def test_what_passes_is_tried_again_and_told_once(r: Rig) -> None:
    for directives in (
        "@fail 429 rate_limit_error 2\n@text got-it",
        "@fail 529 overloaded_error 1\n@text got-it",
        "@fail 500 api_error 1\n@text got-it",
        "@drop 1\n@text got-it",
        "@error overloaded_error 1\n@text got-it",
        "@cuttool 1\n@tool list_files {}\n@text got-it",
    ):
        session, answer = await ask(r, directives)
        assert answer["result"]["stopReason"] == "end_turn", directives
        text = r.client.text(session)
        assert text.count("Trying again") == 1, directives
        assert "got-it" in text, directives
        assert set(r.statuses(session).values()) <= {"completed"}, directives
        await goes_on(r, session)


async def test_what_does_not_pass_is_one_sentence_with_the_right_code(r: Rig) -> None:
    for status, kind, code in (
        (400, "invalid_request_error", -32603),
        (401, "authentication_error", -32000),
        (403, "permission_error", -32000),
        (404, "not_found_error", -32603),
    ):
        asked = len(r.double.requests)
        session, answer = await ask(r, f"@fail {status} {kind} 99\n@text no")
        assert answer["error"]["code"] == code, status
        assert answer["error"]["data"]["details"].endswith("."), status
        assert "sk-test-secret" not in str(answer), status
        assert len(r.double.requests) == asked + 1, f"{status} was tried again"
        await goes_on(r, session)


async def test_thinking_goes_back_byte_for_byte_after_a_restart(r: Rig) -> None:
    session, _ = await ask(r, "@think deep thoughts\n@text one\n@tool list_files {}\n@text two")
    r.kill_worker(session)
    await r.client.prompt(session, "@text three")
    blocks = [
        block
        for message in r.double.requests[-1].body["messages"]
        for block in message["content"]
        if block["type"] == "thinking"
    ]
    assert [block["thinking"].strip() for block in blocks] == ["deep thoughts"]
    assert all(block["signature"] for block in blocks)


async def test_most_of_the_input_is_cached_from_the_second_request_of_a_turn(r: Rig) -> None:
    session, answer = await ask(r, '@tool list_files {}\n@tool list_files {"path": "."}\n@text done')
    assert answer["result"]["stopReason"] == "end_turn"
    usage = [record["usage"] for record in r.records(session) if record["kind"] == "assistant"]
    assert usage[-1]["cache_read"] >= 0.9 * usage[-1]["input"], usage


async def test_a_call_of_a_refused_reply_never_runs(r: Rig) -> None:
    call = '@tool write_file {"path": "refused.txt", "content": "half"}'
    session, answer = await ask(r, f"@stop refusal\n@text no\n{call}\n@text not-asked-for")
    assert answer["result"]["stopReason"] == "refusal"
    assert not (r.work / "refused.txt").exists()
    assert list(r.statuses(session).values()) == ["failed"]
    assert "not-asked-for" not in r.client.text(session)
    await goes_on(r, session)


async def test_a_pause_goes_on(r: Rig) -> None:
    session, answer = await ask(r, "@text let me think\n@stop pause_turn")
    # The double says the same each time.
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert len(r.double.requests) < 20
    await goes_on(r, session)
