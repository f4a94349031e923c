"""A shared agent that ends and comes back under its editors: by SIGHUP, by a crash, by hand."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest

from supervisor.cli.ps import SOCKET_NAME
from tests.e2e.client import permission
from tests.e2e.rig import until
from tests.e2e.shared_agent import COMMAND, place, shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.shared_agent import Shared

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(150)]


async def restarted(s: Shared) -> None:
    """SIGHUP, and wait until the program has started anew."""
    before = starts(s)
    os.kill(s.process.pid, signal.SIGHUP)
    await until(lambda: starts(s) > before)


def starts(s: Shared) -> int:
    """How often the program has started."""
    return sum(entry["message"] == "front started" for entry in s.log())


async def test_a_restart_answers_what_was_lost_once_and_loads_the_editors_sessions_quietly(
    tmp_path: Path,
) -> None:
    async with (
        shared(tmp_path) as s,
        s.client() as a,
        s.client(answer_permission=None) as b,
    ):
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        await a.prompt(session, "@text before")
        await b.call("session/load", place(session, s.work))
        (own,) = [await b.new_session(s.work)]
        asking = await b.begin_prompt(own, '@tool bash {"command": "touch x"}\n@text never')
        question = await b.wait_for(lambda m: m.get("method") == "session/request_permission")
        id_ = await a.begin_prompt(session, "@deltas 5\n@sleep 30\n@text never")
        await a.wait_text(session, "tok4")
        shown = len(a.messages)
        pid = s.process.pid
        await restarted(s)
        for client, lost in ((a, id_), (b, asking)):
            error = (await client.answer_to(lost))["error"]
            assert error["code"] == -32603
        withdrawn = await b.wait_for(lambda m: m.get("method") == "$/cancel_request")
        assert withdrawn["params"]["requestId"] == question["id"]
        # The editor answers the dialog all the same: that permits nothing in the new agent.
        await b.respond(question, permission(question, "allow_once"))
        again = await a.prompt(session, "@text after")
        assert again["result"]["stopReason"] == "end_turn", again
        assert "before" in str(s.double.requests[-1].body)
        await b.wait_text(session, "after")  # it has the session though it asked for nothing since
        assert len(a.answers(id_)) == len(b.answers(asking)) == 1
        replayed = [m for m in a.messages[shown:] if "user_message_chunk" in str(m)]
        assert replayed == [], "quietly: nothing that the editor shows already is sent again"
        for client in (a, b):
            strange = [m for m in client.messages if str(m.get("id", "")).startswith("iac-code-pipe")]
            assert strange == []
        assert not (s.work / "x").exists()
        assert s.process.returncode is None
        assert s.process.pid == pid
        # A settings file that no front could start with keeps the one that runs.
        (s.home / "config" / "settings.json").write_text("{")
        os.kill(pid, signal.SIGHUP)
        await until(lambda: s.logged("not started anew"))
        assert (await a.prompt(session, "@text still"))["result"]["stopReason"] == "end_turn"
        (s.home / "config" / "settings.json").unlink()
        # Signals that come while it starts anew do not end it, and clients that come then wait.
        (control,) = s.socket.parent.glob(f"*/{SOCKET_NAME}")

        def told_again_until_it_ends() -> bool:
            os.kill(pid, signal.SIGHUP)
            return not control.exists()

        await until(told_again_until_it_ends)
        for _ in range(20):
            os.kill(pid, signal.SIGHUP)  # the next program has not begun to listen for them
        async with s.client() as late:
            await late.initialize()
            await late.call("session/load", place(session, s.work))
            assert "still" in late.text(session)
            assert psutil.Process(late.process.pid).children() == [], "it is a pipe, no private front"
        assert (await a.prompt(session, "@text alive"))["result"]["stopReason"] == "end_turn"


async def test_marked_turns_are_taken_up_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    async with shared(tmp_path, {"resume_after_restart": True}) as s, s.client() as a:
        await a.initialize()
        session = await a.new_session(s.work)
        effect = '@tool bash {"command": "echo once >> effects"}'
        first = await a.begin_prompt(session, f"@text began\n{effect}\n@sleep 4\n@text first-ends")
        await until(lambda: "once" in s.history(session) and "tool_result" in s.history(session))
        await restarted(s)
        assert (await a.answer_to(first))["error"]["code"] == -32603
        await a.wait_text(session, "first-ends")  # the editor sees it go on
        await until(lambda: s.history(session).count("turn_end") == 1)
        second = await a.begin_prompt(session, f"@text again\n{effect}\n@sleep 4\n@text second-ends")
        await until(lambda: s.history(session).count("tool_result") == 2)
        os.kill(s.process.pid, signal.SIGKILL)
        await s.process.wait()
        await s.process.aclose()
        s.process = await s.serve()  # as systemd would
        assert (await a.answer_to(second))["error"]["code"] == -32603
        await a.wait_text(session, "second-ends")
        assert (s.work / "effects").read_text() == "once\nonce\n"
        assert len(a.answers(first)) == len(a.answers(second)) == 1
        assert s.logged("was left by a shared agent that was killed")
        assert s.history(session).count('"kind":"user"') == 2, "no prompt was sent twice"


async def test_an_editors_whole_tree_may_be_killed_and_the_agent_that_it_started_stays(
    tmp_path: Path,
) -> None:
    async with shared(tmp_path) as s:
        assert (await s.run("stop")).returncode == 0
        await s.process.wait()
        async with s.client(arguments=("--shared",)) as a:
            await a.initialize()
            session = await a.new_session(s.work)
            await a.prompt(session, "@text kept")
            for process in psutil.Process(a.process.pid).children(recursive=True):
                process.terminate()
        async with s.client() as b:
            await b.initialize()
            await b.call("session/load", place(session, s.work))
            assert "kept" in b.text(session)


async def test_systemd_activates_it_hears_that_it_runs_and_is_not_what_stop_ends(tmp_path: Path) -> None:
    async with shared(tmp_path) as s:
        assert (await s.run("stop")).returncode == 0
        assert (await s.run("stop")).stderr == b"iac-code: No shared agent runs.\n"
        await s.process.wait()
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notified.bind(str(s.runtime / "notify"))
        notified.setblocking(False)
        # This very process listens, as systemd does: the kernel names it as the socket's other end.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(s.socket))
            listening.listen()
            told: dict[str, Any] = {
                "LISTEN_FDS": "1",
                "NOTIFY_SOCKET": str(s.runtime / "notify"),
                "WATCHDOG_USEC": "300000",
            }
            program = (
                "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid());"
                "os.execv(sys.argv[2], sys.argv[2:])"
            )
            async with s.client() as early:  # it waits in the queue
                s.process = await anyio.open_process(
                    [sys.executable, "-c", program, str(listening.fileno()), *COMMAND, "serve"],
                    env=s.whole | told,
                    pass_fds=[listening.fileno()],
                    start_new_session=True,
                )
                await early.initialize()
                session = await early.new_session(s.work)
                heard: list[bytes] = []
                with anyio.fail_after(30):
                    while heard.count(b"WATCHDOG=1") < 3:
                        await anyio.wait_readable(notified)
                        heard.append(notified.recv(100))
                assert heard[0] == b"READY=1"
                await restarted(s)
                answer = await early.prompt(session, '@tool bash {"command": "env > env.txt"}\n@text after')
                assert answer["result"]["stopReason"] == "end_turn"
                assert "NOTIFY_SOCKET" not in (s.work / "env.txt").read_text()
                stopped = await s.run("stop")
                assert str(s.process.pid).encode() in stopped.stdout
            await s.process.wait()
            await s.process.aclose()
            assert s.socket.exists(), "the socket is systemd's"
        s.socket.unlink()
        notified.close()
        s.process = await s.serve()
