"""What takes minutes, in its full length and with the settings as they come: nothing of it is hung."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.e2e.rig import rig, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = [pytest.mark.anyio, pytest.mark.chaos, pytest.mark.timeout(1200)]

COMMAND = {"command": "sleep 597; echo done", "timeout": 600}


async def test_no_worker_is_suspected_for_minutes_of_what_is_only_slow(tmp_path: Path) -> None:
    armed = tmp_path / "armed"
    async with rig(tmp_path, env={"IAC_CODE_FAULTS": f"stall=20@journal.append#4:{armed}"}) as r:
        turns = {
            "the disk stalls for 20 s": "@text on",
            "the client does not read for 60 s": "@deltas 20000\n@text on",
            "the model is silent for 5 minutes": "@sleep 300\n@text on",
            "the model sends no byte for 5 minutes": "@stall 300\n@text on",
            "a command runs for 10 minutes": f"@tool bash {json.dumps(COMMAND)}\n@text on",
        }
        sessions = {name: await r.client.new_session(r.work) for name in turns}
        for session in sessions.values():
            await r.client.prompt(session, "@text hi")
        pids = {name: r.worker_pid(session) for name, session in sessions.items()}
        armed.touch()
        ids = {}
        for name, text in turns.items():
            ids[name] = await r.client.begin_prompt(sessions[name], text)
            if name.startswith("the disk"):
                await until(lambda: not armed.exists())
        r.client.pause()
        await anyio.sleep(60)  # the silence is what is tested
        r.client.go_on()
        for name, id_ in ids.items():
            await until(partial(_is_answered, r, id_), within=900)
            answer = await r.client.answer_to(id_)
            if "no byte" in name:
                # A time-out of the model's stream, told as such once its retries are spent.
                assert "sent nothing" in json.dumps(answer["error"]), answer
            else:
                assert answer["result"]["stopReason"] == "end_turn", name
                assert r.client.text(sessions[name]).endswith("on"), name
            assert r.worker_pid(sessions[name]) == pids[name], name
        assert not list(r.sessions.glob("*/crash-*"))
        log = (r.home / "config" / "logs" / "iac-code.jsonl").read_text()
        assert "does not answer" not in log


def _is_answered(r: Rig, id_: int) -> bool:
    return any(message.get("id") == id_ and "method" not in message for message in r.client.messages)
