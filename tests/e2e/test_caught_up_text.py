"""What a dead worker had recorded but not sent is sent once, however many epochs die over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.rig import rig

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

DELTAS = 300


async def test_two_deaths_after_a_reply_was_recorded_show_its_text_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    # The reply is the worker's second record; the next epoch dies between the turn's end and its answer.
    faults = [f"kill@journal.synced#{n}:{first}" for n in range(2, 40)]
    faults += [f"kill@turn.ended#{n}:{second}" for n in range(1, 40)]
    async with rig(tmp_path, env={"IAC_CODE_FAULTS": ",".join(faults)}) as r:
        for _ in range(2):
            session = await r.client.new_session(r.work)
            first.touch()
            second.touch()
            answer = await r.client.prompt(session, f"@burst {DELTAS}")
            assert answer["result"]["stopReason"] == "end_turn"
            assert not first.exists()
            assert not second.exists()
            message = r.client.updates(session, "agent_message_chunk")[0]["messageId"]
            chunks = [
                u for u in r.client.updates(session, "agent_message_chunk") if u["messageId"] == message
            ]
            text = "".join(chunk["content"]["text"] for chunk in chunks)
            assert text.split() == [f"tok{n}" for n in range(DELTAS)]


@pytest.mark.parametrize("typed", ["/help", "/compact", "/compact now\n@fail 400 invalid_request_error 9"])
@pytest.mark.parametrize("point", ["journal.synced", "turn.ended"])
async def test_a_command_whose_worker_dies_over_it_runs_and_is_told_once(
    tmp_path: Path, typed: str, point: str
) -> None:
    armed = tmp_path / "armed"
    faults = ",".join(f"kill@{point}#{n}:{armed}" for n in range(1, 40))
    async with rig(tmp_path, env={"IAC_CODE_FAULTS": faults}) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, f"@burst {DELTAS}")
        told, asked = len(r.client.text(session)), len(r.double.requests)
        armed.touch()
        answer = await r.client.prompt(session, typed)
        assert not armed.exists()
        (command,) = [record for record in r.records(session) if record["kind"] == "command"]
        output = command["output"]
        assert r.client.text(session)[told:].count(output) == 1
        if "@fail" in typed:
            assert output in answer["error"]["data"]["details"]
        else:
            assert answer["result"]["stopReason"] == "end_turn"
        compactions = [record for record in r.records(session) if record["kind"] == "compaction"]
        assert len(compactions) == (typed == "/compact")
        if typed == "/compact":
            assert len(r.double.requests) == asked + 1, "one summary was asked for"
            assert f"{len(compactions[0]['summary']):,} characters" in output
            assert compactions[0]["usage"]["output"] > 0
