"""Where a call's paths lead is looked at when the call runs, not when its reply came."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.rig import rig

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.anyio


async def test_a_call_that_waited_for_another_is_judged_by_what_is_there_then(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "id").write_text("SECRET\n")
    rules = [{"effect": "allow", "tool": "bash", "command": "cat"}]
    async with rig(tmp_path, answer_permission="allow_once", settings={"rules": rules}) as r:
        (r.work / "d").mkdir()
        (r.work / "d" / "id").write_text("harmless\n")
        session = await r.client.new_session(r.work)
        swap = f"until [ -e go ]; do sleep 0.1; done; rm -r d; ln -s {outside} d"
        begin = json.dumps({"command": swap, "run_in_background": True})
        await r.client.prompt(session, f"@tool bash {begin}")
        found = re.search(r"task-[0-9a-f]+", str(r.records(session)))
        assert found is not None
        r.client.answer_permission = "reject_once"
        wait = json.dumps({"task_id": found[0], "wait": 30})
        read = json.dumps({"command": "cat d/id"})
        id_ = await r.client.begin_prompt(session, f"@tool task_output {wait}\n@tool bash {read}")
        # Both calls are planned when they are announced: now `d` becomes a link.
        await r.client.wait_until(lambda: len(r.statuses(session)) == 3)
        (r.work / "go").touch()
        await r.client.answer_to(id_)
        *_, result = [record for record in r.records(session) if record["kind"] == "tool_result"]
        assert result["text"] == "Permission denied."
