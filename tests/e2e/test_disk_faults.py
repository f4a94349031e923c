"""A disk that takes nothing: what was asked fails with a sentence, nothing is half done, later it works."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.rig import rig, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

FULL_BROKEN_AND_READ_ONLY = ("enospc", "eio", "erofs")
POINTS = ("write", "written")


async def test_what_cannot_be_stored_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    kinds = [(action, point) for action in FULL_BROKEN_AND_READ_ONLY for point in POINTS]
    armed = {kind: tmp_path / "-".join(kind) for kind in kinds}
    faults = [f"{action}@meta.{point}:{file}" for (action, point), file in armed.items()]
    async with rig(tmp_path, env={"IAC_CODE_FAULTS": ",".join(faults)}) as r:
        session = await r.client.new_session(r.work)
        await r.client.prompt(session, "@text hi")
        meta = r.sessions / session / "meta.json"
        meta = r.sessions / session / "meta.json"

        def settled() -> bool:
            found = json.loads(meta.read_bytes())
            return bool(found.get("title") == "@text hi" and found.get("turn") is None)

        await until(settled)  # what follows a prompt is written beside it, and would meet the first fault
        place = {"cwd": str(r.work), "mcpServers": []}

        async def refused(kind: tuple[str, str], method: str, params: dict[str, Any]) -> None:
            armed[kind].touch()
            error = (await r.client.request(method, params))["error"]
            assert not armed[kind].exists(), (kind, method)
            assert error["code"] == -32603, (kind, method)
            assert "could not be used" in error["data"]["details"], (kind, method)

        for kind in kinds:
            await refused(kind, "session/new", place)
            await refused(kind, "session/fork", {"sessionId": session, **place})
            await refused(kind, "session/set_mode", {"sessionId": session, "modeId": "plan"})
        assert [s["sessionId"] for s in (await r.client.call("session/list", {}))["sessions"]] == [session]
        assert r.client.updates(session, "current_mode_update") == []
        other = await r.client.new_session(r.work)
        await refused(kinds[0], "session/close", {"sessionId": other})
        await r.client.call("session/load", {"sessionId": other, **place})
        # The time of a prompt is only noted beside it.
        armed[kinds[0]].touch()
        assert (await r.client.prompt(session, "@text still"))["result"]["stopReason"] == "end_turn"
        armed[kinds[0]].unlink(missing_ok=True)
        await r.client.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
        fork = (await r.client.call("session/fork", {"sessionId": session, **place}))["sessionId"]
        assert (await r.client.prompt(fork, "@text works again"))["result"]["stopReason"] == "end_turn"
