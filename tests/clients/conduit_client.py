"""A client on conduit-agent-sdk (Rust, strict), for a Python that has it: `conduit_client.py CWD PROGRAM …`.

Prints what it found as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from conduit_sdk import Client, UpdateKind  # type: ignore[import-not-found, unused-ignore]


async def main() -> dict[str, Any]:
    """Drive the agent through what the SDK offers."""
    cwd, *command = sys.argv[1:]
    found: dict[str, Any] = {}
    async with Client(command, cwd=cwd) as client:
        found["agent"] = await client.agent_info
        session = await client.new_session(cwd)
        found["text"] = "".join(message.text() for message in await session.prompt("say hello from rust"))
        await session.set_mode("plan")
        found["options"] = await session.set_config("mode", "accept_edits")
        found["kinds"] = []
        async for update in client.prompt_stream("list .\nwrite a.txt: x", session_id=session.session_id):
            found["kinds"].append(str(update.kind))
            if update.kind == UpdateKind.Done:
                break
        found["sessions"] = await client.list_sessions(cwd)
        # Of what this release sends with its own names (`session_id`), it does not read the answers.
        await session.fork(cwd)
        await session.load(str(session.session_id), cwd)
        found["loaded"] = "".join(message.text() for message in await session.prompt("say loaded"))
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main()), default=str), flush=True)  # noqa: T201 - read by the test
    # Its threads sometimes crash an interpreter that ends in good order.
    os._exit(0)
