"""A client on conduit-agent-sdk (Rust, strict), run by the Python that has it: `conduit_client.py CWD PROGRAM …`.

Prints what it found as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from conduit_sdk import Client  # type: ignore[import-not-found, unused-ignore]


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
        kinds: list[str] = []
        async for update in client.prompt_stream("list . and write a.txt: x", session_id=session.session_id):
            kinds.append(str(update.kind))
        found["kinds"] = kinds
        found["sessions"] = await client.list_sessions(cwd)
        fork = await session.fork(cwd)
        found["fork"] = "".join(message.text() for message in await fork.prompt("say from the fork"))
        resumed = await client.resume_session(session.session_id, cwd)
        found["resumed"] = "".join(message.text() for message in await resumed.prompt("say resumed"))
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main()), default=str))  # noqa: T201 - read by the test
