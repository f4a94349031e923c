"""What is slow is not hung: no worker is suspected, let alone killed, for what it cannot help."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.e2e.rig import rig, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

HELD = 4.5
"""Seconds that each of them is held up: longer than the thresholds below."""
SETTINGS = {"unresponsive_after": 2.0, "kill_after_in_turn": 3.0, "kill_after_idle": 3.0}

DEBUGGER = """
import ctypes, os, sys, time
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(16, pid, None, None):  # PTRACE_ATTACH
    sys.exit("not permitted")
os.waitpid(pid, 0x40000000)  # __WALL
print("attached", flush=True)
time.sleep(float(sys.argv[2]))
libc.ptrace(17, pid, None, None)  # PTRACE_DETACH
"""


async def test_nothing_slow_is_taken_for_hung(tmp_path: Path) -> None:
    armed = tmp_path / "armed"
    async with rig(
        tmp_path,
        settings=SETTINGS,
        answer_permission="allow_always",
        env={"IAC_CODE_FAULTS": f"stall={HELD}@journal.append#4:{armed}"},
    ) as r:
        burn = f"for i in 1 2; do timeout {HELD} sh -c 'while :; do :; done' & done; wait"
        turns = {
            "the disk stalls": "@text on",
            "a command takes long": f'@tool bash {{"command": "sleep {HELD}"}}\n@text on',
            "a tool takes all of the processors": f"@tool bash {json.dumps({'command': burn})}\n@text on",
            "the model is silent": f"@stall {HELD}\n@text on",
            "a debugger holds it": "@sleep 1\n@text on",
        }
        sessions = {name: await r.client.new_session(r.work) for name in turns}
        idle = await r.client.new_session(r.work)
        for session in (*sessions.values(), idle):
            await r.client.prompt(session, "@text hi")
        pids = {session: r.worker_pid(session) for session in (*sessions.values(), idle)}
        armed.touch()
        ids = {}
        for name, text in turns.items():
            ids[name] = await r.client.begin_prompt(sessions[name], text)
            if name == "the disk stalls":
                await until(lambda: not armed.exists())
        held = [sessions["a debugger holds it"], idle]
        async with AsyncExitStack() as stack:
            debuggers = [
                await stack.enter_async_context(
                    await anyio.open_process([sys.executable, "-c", DEBUGGER, str(pids[session]), str(HELD)])
                )
                for session in held
            ]
            for debugger in debuggers:
                assert debugger.stdout is not None
                with suppress(anyio.EndOfStream):
                    await debugger.stdout.receive()
                if debugger.returncode is not None:
                    pytest.skip("this system lets nobody attach a debugger")
            # All the while the client reads nothing.
            r.client.pause()
            for debugger in debuggers:
                assert await debugger.wait() == 0
            r.client.go_on()
        for name, id_ in ids.items():
            assert (await r.client.answer_to(id_))["result"]["stopReason"] == "end_turn", name
            assert r.client.text(sessions[name]) == "hion", name
        assert (await r.client.prompt(idle, "@text on"))["result"]["stopReason"] == "end_turn"
        assert {session: r.worker_pid(session) for session in pids} == pids
        log = (r.home / "config" / "logs" / "iac-code.jsonl").read_text()
        assert "does not answer" not in log
