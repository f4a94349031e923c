"""Conversations that outgrow the model's window go on, and nothing that was typed is lost to the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

ANYWAY = "I typed this and want it kept."


async def switch(r: Rig, session: str, model: str) -> None:
    option = {"sessionId": session, "configId": "model", "value": model}
    await r.client.call("session/set_config_option", option)


async def session_with(r: Rig, model: str) -> str:
    session = await r.client.new_session(r.work)
    await switch(r, session, model)
    return session


def calls(folder: Path, number: int, octets: int) -> Iterator[str]:
    """A script of so many rounds that each read another file."""
    for n in range(number):
        (folder / f"f{n}").write_text(f"{n} line of text\n" * (octets // 16))
        yield f'@tool read_file {{"path": "f{n}"}}\n@text round {n}'


def prompts(request: Any) -> str:
    return json.dumps([m for m in request.body["messages"] if m["role"] == "user"])


async def test_old_results_shrink_in_a_turn_that_goes_on(small: Rig) -> None:
    r = small
    session, since = await session_with(r, "fits"), len(r.double.requests)
    script = "\n".join([ANYWAY, *calls(r.work, 60, 1_600), "@text all-done"])
    answer = await r.client.prompt(session, script)
    assert answer.get("result", answer).get("stopReason") == "end_turn", answer
    assert "all-done" in r.client.text(session)
    made = r.double.requests[since:]
    assert all(request.status == 200 for request in made)
    assert "left out to save context" in prompts(made[-1])
    assert all(ANYWAY in prompts(request) for request in made)
    # What is cut stays cut, and much is cut at once: most requests find their beginning in the cache.
    cached = [u["read"] / (u["plain"] + u["read"] + u["written"]) for u in (one.usage for one in made[1:])]
    assert sum(share >= 0.8 for share in cached) >= 0.75 * len(cached), cached
    # A worker that has just loaded the history sends what the one before it did.
    r.kill_worker(session)
    await r.client.prompt(session, "@text after")
    again = r.double.requests[-1].usage
    assert again["read"] >= 0.8 * sum(again.values()), again


async def test_what_does_not_shrink_is_summarized_within_the_turn_and_the_prompt_stays(small: Rig) -> None:
    r = small
    session, since = await session_with(r, "fits"), len(r.double.requests)
    rounds = (f"@burst 3000\n{line}" for line in calls(r.work, 14, 160))
    answer = await r.client.prompt(session, "\n".join([ANYWAY, *rounds, "@text all-done"]))
    assert answer.get("result", answer).get("stopReason") == "end_turn", answer
    assert "all-done" in r.client.text(session)
    made = r.double.requests[since:]
    assert all(request.status == 200 for request in made)
    summaries = [record for record in r.records(session) if record["kind"] == "compaction"]
    assert summaries
    assert r.client.text(session).count("summarized to make room") == len(summaries)
    assert all(ANYWAY in prompts(request) for request in made)
    assert summaries[-1]["summary"] in prompts(made[-1])
    # Each call ran once.
    assert sum(record["kind"] == "tool_result" for record in r.records(session)) == 14


async def test_a_full_conversation_is_summarized_before_the_next_turn_begins(small: Rig) -> None:
    r = small
    session = await session_with(r, "fits")
    await r.client.prompt(session, f"{ANYWAY}\n@burst 13000\n@text end")
    since = len(r.double.requests)
    await r.client.prompt(session, "my next question\n@text answered")
    asked, turn = r.double.requests[since:]
    assert "Write a summary" in prompts(asked)
    assert "my next question" not in prompts(asked)
    assert "my next question" in prompts(turn)
    assert ANYWAY not in prompts(turn)
    assert "answered" in r.client.text(session)
    (user,) = [x for x in r.records(session) if x["kind"] == "user" and "next question" in str(x)]
    (compaction,) = [x for x in r.records(session) if x["kind"] == "compaction"]
    assert r.records(session).index(user) < r.records(session).index(compaction), "typed, then summarized"


@pytest.mark.parametrize("kind", ["deltas", "reads"])
async def test_a_service_that_takes_less_than_is_known_of_it(small: Rig, kind: str) -> None:
    r = small
    session, refused = await session_with(r, "overrated"), r.double.too_long
    if kind == "deltas":
        for _ in range(6):
            await r.client.prompt(session, "@burst 5000\n@text end")
    else:
        await r.client.prompt(session, "\n".join([*calls(r.work, 3, 80_000), "@text end"]))
    answer = await r.client.prompt(session, f"{ANYWAY}\n@text still-here")
    assert answer["result"]["stopReason"] == "end_turn", answer
    assert "still-here" in r.client.text(session)
    assert r.double.too_long > refused
    kinds = [record["kind"] for record in r.records(session)]
    assert "compaction" in kinds or "left out to save context" in prompts(r.double.requests[-1])
    assert ANYWAY in prompts(r.double.requests[-1])


@pytest.mark.parametrize(("first", "then", "octets"), [("tiny", "fits", 90_000), ("fits", "tiny", 7_000)])
async def test_another_window_changes_only_what_is_cut(
    small: Rig, first: str, then: str, octets: int
) -> None:
    r = small
    session, refused = await session_with(r, first), r.double.too_long
    for number, script in enumerate(calls(r.work, 7, octets)):
        await r.client.prompt(session, f"{ANYWAY} {number}\n{script}")
    await switch(r, session, then)
    for kill in (False, True):
        if kill:
            r.kill_worker(session)
        await r.client.prompt(session, "my next question\n@text answered")
    last, after_restart = r.double.requests[-2:]
    assert r.double.too_long == refused
    assert not [record for record in r.records(session) if record["kind"] == "compaction"]
    assert all(f"{ANYWAY} {number}" in prompts(last) for number in range(7))
    assert "left out to save context" in prompts(last)
    assert after_restart.usage["read"] >= 0.8 * sum(after_restart.usage.values()), "sent as it was before"


async def test_new_results_that_are_too_much_together_are_cut_until_they_fit(small: Rig) -> None:
    r = small
    session, since = await session_with(r, "overrated"), len(r.double.requests)
    for n in range(8):
        (r.work / f"f{n}").write_text(f"{n} line of text\n" * 5_000)
    reads = "\n".join(f'@tool read_file {{"path": "f{n}"}}' for n in range(8))
    answer = await r.client.prompt(session, f"{ANYWAY}\n{reads}\n@text all-read")
    assert answer.get("result", answer).get("stopReason") == "end_turn", answer
    assert "all-read" in r.client.text(session)
    assert all(f"{n} line of text" in prompts(r.double.requests[-1]) for n in range(8))
    since = len(r.double.requests)
    r.kill_worker(session)
    await r.client.prompt(session, "@text after")
    (after,) = r.double.requests[since:]
    assert after.status == 200, "what was cut is known after a restart"


async def test_a_refusal_that_was_a_mistake_holds_for_its_turn_alone(small: Rig) -> None:
    r = small
    session, window = await session_with(r, "fits"), r.double.window
    (r.work / "f").write_text("a line of text\n" * 300)
    await r.client.prompt(session, f"{ANYWAY}\n@text heard")
    before = r.double.requests[-1].body["max_tokens"]
    r.double.window = 2_000
    try:
        answer = await r.client.prompt(session, "my next question\n@text lost")
        assert answer["error"]["code"] == -32602
    finally:
        r.double.window = window
    await r.client.prompt(session, '@tool read_file {"path": "f"}\n@text read')
    last = r.double.requests[-1]
    assert last.body["max_tokens"] == before
    assert prompts(last).count("a line of text") == 300
    assert ANYWAY in prompts(last)


async def test_a_prompt_that_fills_the_window_is_refused_and_costs_the_conversation_nothing(
    small: Rig,
) -> None:
    r = small
    session = await session_with(r, "fits")
    await r.client.prompt(session, f"{ANYWAY}\n@text heard")
    answer = await r.client.prompt(session, "too much of it " * 12_000)
    assert answer["error"]["code"] == -32602
    await r.client.prompt(session, "@text next")
    assert ANYWAY in prompts(r.double.requests[-1])
    assert "too much of it" not in prompts(r.double.requests[-1])
    assert not [record for record in r.records(session) if record["kind"] == "compaction"]


async def test_a_small_window_is_never_exceeded(small: Rig) -> None:
    r = small
    session, since = await session_with(r, "tiny"), len(r.double.requests)
    answer = await r.client.prompt(session, "\n".join([ANYWAY, *calls(r.work, 6, 30_000), "@text all-done"]))
    assert answer.get("result", answer).get("stopReason") == "end_turn", answer
    for request in r.double.requests[since:]:
        assert sum(request.usage.values()) + request.body["max_tokens"] <= 8_000, request.usage
    assert "all-done" in r.client.text(session)


@pytest.mark.parametrize("bad", ["@text I can\n@stop refusal", "@text Look.\n@tool list_files {}", "@empty"])
async def test_what_is_no_whole_summary_replaces_nothing(small: Rig, bad: str) -> None:
    r = small
    session = await session_with(r, "fits")
    await r.client.prompt(session, f"{ANYWAY}\n@burst 200\n@text end")
    assert (await r.client.prompt(session, f"/compact now\n{bad}"))["result"]["stopReason"] == "end_turn"
    assert "as it was" in r.client.text(session)
    await r.client.prompt(session, "@text next")
    assert ANYWAY in prompts(r.double.requests[-1])


async def test_a_command_that_failed_or_was_cancelled_says_nothing_of_the_request_before_it(
    small: Rig,
) -> None:
    r = small
    session = await session_with(r, "fits")
    await r.client.prompt(session, f"{ANYWAY}\n@burst 200\n@text end")
    answer = await r.client.prompt(session, "/compact now\n@fail 400 invalid_request_error 9\n@text x")
    assert answer["error"]["code"] == -32603
    since = len(r.double.requests)
    id_ = await r.client.begin_prompt(session, "/compact now\n@stall 60")
    await until(lambda: len(r.double.requests) > since)
    await r.client.notify("session/cancel", {"sessionId": session})
    assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled"
    await r.client.prompt(session, "@text next")
    assert "The request above" not in prompts(r.double.requests[-1])
    assert "cancelled the request" not in prompts(r.double.requests[-1])
    typed = [record["text"] for record in r.records(session) if record["kind"] == "command"]
    assert len(typed) == 2, "what was typed is kept"
