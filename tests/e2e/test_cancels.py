"""A cancel ends the turn whatever its worker does, once and for all, and the session goes on."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.rig import rig, running_command, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

STUBBORN = f"sleep {os.getpid() + 300_000}"
"""A command that only SIGKILL ends is run with this in it."""


def _bash(command: str) -> str:
    return f"@tool bash {json.dumps({'command': command})}"


async def _streams(r: Rig, session: str) -> None:
    await r.client.wait_text(session, "tok4")


async def _runs(r: Rig, session: str) -> None:
    await until(lambda: bool(running_command(STUBBORN)))


async def _asks(r: Rig, session: str) -> None:
    await r.client.wait_for(
        lambda m: m.get("method") == "session/request_permission" and m["params"]["sessionId"] == session
    )


async def _begins(r: Rig, session: str) -> None:
    """Cancelled right behind the prompt."""


async def _dies(r: Rig, session: str) -> None:
    """Cancelled while its worker is being replaced."""
    await _streams(r, session)
    r.kill_worker(session)


async def _hangs(r: Rig, session: str) -> None:
    """Cancelled when the worker can hear nothing: the front answers for it."""
    await _streams(r, session)
    r.kill_worker(session, signal.SIGSTOP)


CASES: dict[str, tuple[str, Callable[[Rig, str], Awaitable[None]]]] = {
    "streaming": ("@deltas 5\n@sleep 60", _streams),
    "a stubborn tool": (_bash(f"trap '' TERM; {STUBBORN}; true"), _runs),
    "a permission": (_bash("touch never"), _asks),
    "together with the prompt": ("@deltas 5\n@sleep 60", _begins),
    "during a restart": ("@deltas 5\n@sleep 60", _dies),
    "a worker that hangs": ("@deltas 5\n@sleep 60", _hangs),
}


async def test_a_cancel_ends_the_turn_whatever_its_worker_does(tmp_path: Path) -> None:
    async with rig(tmp_path, answer_permission=None, settings={"cancel_within": 1.0}) as r:
        for case, (text, reached) in CASES.items():
            session = await r.client.new_session(r.work)
            await r.client.prompt(session, "@text before")
            if case == "a stubborn tool":
                unasked = {"sessionId": session, "modeId": "bypass_permissions"}
                await r.client.call("session/set_mode", unasked)
            prompt = f"{text}\n@text never"
            id_ = await r.client.begin_prompt(session, prompt)
            await reached(r, session)
            await r.client.notify("session/cancel", {"sessionId": session})
            assert (await r.client.answer_to(id_))["result"]["stopReason"] == "cancelled", case
            told = len(r.client.updates(session))
            if case == "a stubborn tool":
                await _next_tool_waits(r, session)
            else:
                after = await r.client.prompt(session, "@text after")
                assert after["result"]["stopReason"] == "end_turn", case
                texts = [u["content"]["text"] for u in r.client.updates(session)[told:] if "content" in u]
                assert "".join(texts) == "after", f"{case}: the cancelled turn spoke after its end"
            assert len(r.client.answers(id_)) == 1, case
            assert set(r.statuses(session).values()) <= {"completed", "failed"}, case
            _all_on_disk(r.records(session), case)
            typed = [record["blocks"][0]["text"] for record in r.records(session) if record["kind"] == "user"]
            assert typed[1] == prompt, f"{case}: what was typed is lost"
        assert not (r.work / "never").exists()


async def _next_tool_waits(r: Rig, session: str) -> None:
    """The tools of the next prompt find nothing of the cancelled turn's running."""
    look = f"ps -eo args | grep -c '^{STUBBORN}$'; true"
    after = await r.client.prompt(session, f"{_bash(look)}\n@text after")
    assert after["result"]["stopReason"] == "end_turn"
    (result,) = [rec for rec in r.records(session) if rec["kind"] == "tool_result" and not rec["is_error"]]
    assert result["text"].strip() == "0"


def _all_on_disk(records: list[dict[str, Any]], case: str) -> None:
    """Every call has its result, every turn its end."""
    kinds = [record["kind"] for record in records]
    calls = [
        block["id"]
        for record in records
        if record["kind"] == "assistant"
        for block in record["blocks"]
        if block["type"] == "tool_use"
    ]
    assert [record["call_id"] for record in records if record["kind"] == "tool_result"] == calls, case
    assert kinds.count("user") == kinds.count("turn_end") == 3, case
    ends = [record["stop_reason"] for record in records if record["kind"] == "turn_end"]
    assert ends == ["end_turn", "cancelled", "end_turn"], case
