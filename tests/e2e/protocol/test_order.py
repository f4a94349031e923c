"""The order of lines (protocol §4, Rules) under load: `tests.e2e.wire` looks at each line of these."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import anyio
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

SESSIONS = 8
ROUNDS = 4


async def test_many_busy_sessions_keep_every_rule(r: Rig, work: Path) -> None:
    """Each streams, runs tools, asks, is cancelled, loaded and forked at the same time."""
    (work / "f").write_text("text")
    stopped: list[str] = []

    async def live(seed: int) -> None:
        dice = random.Random(seed)
        place: dict[str, Any] = {"cwd": str(work), "mcpServers": []}
        made = await r.client.begin("session/new", place)
        session = (await r.client.answer_to(made))["result"]["sessionId"]
        for number in range(ROUNDS):
            words = f"s{seed}r{number}"
            turn = await r.client.begin_prompt(
                session,
                f'@think {words}\n@burst 300\n@tool bash {{"command": "echo {words}"}}\n'
                f'@tool read_file {{"path": "f"}}\n@text a\n'
                f'@tool write_file {{"path": "{words}", "content": ""}}\n'
                f"@deltas 40\n@text {words}-end",
            )
            match dice.choice(("cancel", "load", "fork", "wait", "mode")):
                case "cancel":
                    await r.client.wait_text(session, f"tok{dice.randrange(290)} ")
                    await r.client.notify("session/cancel", {"sessionId": session})
                case "load":
                    await r.client.call("session/load", {"sessionId": session, **place})
                case "fork":
                    await r.client.call("session/fork", {"sessionId": session, **place})
                case "wait":
                    waiting = await r.client.begin_prompt(session, "@text waited")
                    stopped.append((await r.client.answer_to(waiting))["result"]["stopReason"])
                case "mode":
                    mode = dice.choice(("accept_edits", "default"))
                    await r.client.call("session/set_mode", {"sessionId": session, "modeId": mode})
            reason = (await r.client.answer_to(turn))["result"]["stopReason"]
            stopped.append(reason)
            assert len(r.client.answers(turn)) == 1
            if reason == "end_turn":
                assert f"{words}-end" in r.client.text(session)

    async with anyio.create_task_group() as all_of_them:
        for seed in range(SESSIONS):
            all_of_them.start_soon(live, seed)
    assert set(stopped) == {"end_turn", "cancelled"}
    assert r.client.wire is not None
    assert r.client.wire.finished() == []
