"""Without a model of a service, too, a conversation that was summarized goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.client import start_agent

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_summary_keeps_what_was_asked_and_the_next_prompt_is_answered(tmp_path: Path) -> None:
    async with start_agent(tmp_path) as client:
        await client.initialize()
        session = await client.new_session(tmp_path)

        async def run(prompt: str) -> str:
            said = len(client.text(session))
            answer = await client.prompt(session, prompt)
            assert answer["result"]["stopReason"] == "end_turn"
            return client.text(session)[said:]

        await run(f"say {'lorem ipsum ' * 200}")
        assert "compacted" in await run("/compact")
        assert await run("say it goes on") == "it goes on"
        await run(f"say {'dolor sit ' * 200}")
        assert "compacted" in await run("/compact above all the dolor")
        told = await run("Summarize this conversation.")
    assert told.startswith("The user asked, in this order:\n- say lorem ipsum")
    assert "\n- say it goes on\n- say dolor sit" in told
