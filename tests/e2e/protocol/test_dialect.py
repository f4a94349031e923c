"""`--dialect acp` is the bare standard; by default the reference's keys stand beside it (protocol §4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import start_agent
from tests.e2e.rig import rig
from tests.e2e.wire import Wire

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

REFERENCE = {"type", "text", "raw_input", "raw_output"}


async def test_the_bare_standard_has_none_of_the_references_keys(tmp_path: Path) -> None:
    # Every line of it is held to the schema, and to these rules, by `tests.e2e.wire`.
    async with rig(tmp_path, arguments=("--dialect", "acp")) as r:
        place: dict[str, Any] = {"cwd": str(r.work), "mcpServers": []}
        made = await r.client.call("session/new", place)
        assert made.keys() == {"sessionId", "modes", "configOptions"}
        session = made["sessionId"]
        (r.work / "a").write_text("old")
        first = await r.client.prompt(
            session,
            '@think hm\n@text hi\n@tool read_file {"path": "a"}\n@text x\n'
            '@tool edit_file {"path": "a", "old_string": "old", "new_string": "new"}\n'
            '@tool bash {"command": "false"}\n@tool todo {"entries": [{"content": "x"}]}\n@text end',
        )
        assert first["result"].keys() == {"stopReason", "_meta"}
        assert first["result"]["_meta"]["usage"].keys() == {"inputTokens", "outputTokens", "totalTokens"}
        await r.client.call("config/set", {"sessionId": session, "configId": "mode", "value": "plan"})
        fork = await r.client.call("session/fork", {"sessionId": session, **place})
        assert fork.keys() == {"sessionId", "modes", "configOptions"}
        for method in ("session/load", "session/resume"):
            assert (await r.client.call(method, {"sessionId": session, **place})).keys() == {
                "modes",
                "configOptions",
            }
        turn = await r.client.begin_prompt(session, "@text so\n@sleep 30")
        waiting = await r.client.begin_prompt(session, "@text never")
        await r.client.notify("session/cancel", {"sessionId": session})
        for id_ in (turn, waiting):
            assert (await r.client.answer_to(id_))["result"].keys() == {"stopReason", "_meta"}
        updates = r.client.updates(session)
        assert all("sessionUpdate" in update and not REFERENCE & update.keys() for update in updates)
        kinds = {update["sessionUpdate"] for update in updates}
        assert kinds >= {"user_message_chunk", "agent_thought_chunk", "tool_call", "plan", "usage_update"}


async def test_the_dialect_can_be_chosen_in_the_environment_and_is_both_by_default(
    r: Rig, tmp_path: Path
) -> None:
    assert "models" in await r.client.call("session/new", {"cwd": str(tmp_path)})
    for env, arguments, bare in (
        ({"IAC_CODE_DIALECT": "acp"}, (), True),
        ({"IAC_CODE_DIALECT": "acp"}, ("--dialect=both",), False),
    ):
        async with start_agent(
            tmp_path, env=env, arguments=arguments, wire=Wire("acp" if bare else "both")
        ) as client:
            await client.initialize()
            made = await client.call("session/new", {"cwd": str(tmp_path)})
            assert ("models" in made) != bare
