"""The shared agent: one front, many clients, sessions that outlive their connections."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.double import serving
from tests.e2e.client import AGENT, offline_environment, permission, start_agent
from tests.e2e.rig import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import Process

    from tests.double import Double

pytestmark = pytest.mark.anyio


@dataclass
class Shared:
    """A shared agent with a runtime folder of its own."""

    home: Path
    work: Path
    environment: dict[str, str]
    double: Double
    process: Process
    runtime: Path

    def client(self, **options: Any) -> Any:
        """`iac-code acp` as an editor starts it."""
        return start_agent(self.home, env=self.environment, cwd=self.work, **options)


@asynccontextmanager
async def shared(tmp_path: Path, settings: str | None = None) -> AsyncIterator[Shared]:
    """A shared agent, ended with `iac-code stop`."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (home / "config").mkdir(parents=True)
    if settings is not None:
        (home / "config" / "settings.json").write_text(settings)
    with tempfile.TemporaryDirectory(prefix="iac-") as runtime:
        async with serving() as double:
            environment = {
                "XDG_RUNTIME_DIR": runtime,
                "ANTHROPIC_API_KEY": "sk-test",
                "ANTHROPIC_BASE_URL": double.base_url,
                "NO_PROXY": "127.0.0.1",
            }
            whole = offline_environment(home) | environment
            async with await anyio.open_process(
                [*AGENT[:-1], "serve"], env=whole, stderr=subprocess.PIPE, start_new_session=True
            ) as process:
                socket = Path(runtime) / "iac-code" / "shared.sock"
                try:
                    await until(socket.exists)
                    yield Shared(home, work, environment, double, process, Path(runtime))
                finally:
                    with anyio.CancelScope(shield=True):
                        stopped = await anyio.run_process([*AGENT[:-1], "stop"], env=whole, check=False)
                        if stopped.returncode != 0:
                            process.kill()
                        await process.wait()
                assert stopped.returncode == 0, stopped.stderr
                assert not socket.exists()
        assert double.refusals == []


def place(session: str, work: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(work), "mcpServers": []}


async def test_two_clients_share_a_session_and_see_the_same(tmp_path: Path) -> None:
    async with shared(tmp_path) as s, s.client() as a, s.client(answer_permission=None) as b:
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        id_ = await a.begin_prompt(session, "@deltas 50\n@sleep 1\n@deltas 50\n@text the-end")
        await a.wait_text(session, "tok49")
        await b.call("session/load", place(session, s.work))
        assert (await a.answer_to(id_))["result"]["stopReason"] == "end_turn"
        await b.wait_text(session, "the-end")
        assert a.text(session) == b.text(session)
        shown = len(b.updates(session, "user_message_chunk"))
        await a.prompt(session, "@text second")
        await b.wait_text(session, "second")
        echoes = b.updates(session, "user_message_chunk")[shown:]
        assert [u["content"]["text"] for u in echoes] == ["@text second"]


async def test_the_first_answer_to_a_permission_counts_and_the_others_are_withdrawn(tmp_path: Path) -> None:
    async with (
        shared(tmp_path) as s,
        s.client(answer_permission=None) as a,
        s.client(answer_permission=None) as b,
    ):
        await a.initialize()
        await b.initialize()
        session = await a.new_session(s.work)
        await b.call("session/load", place(session, s.work))
        id_ = await a.begin_prompt(session, '@tool bash {"command": "echo x > x.txt"}\n@text end')
        asked_a = await a.wait_for(lambda m: m.get("method") == "session/request_permission")
        asked_b = await b.wait_for(lambda m: m.get("method") == "session/request_permission")
        await b.respond(asked_b, permission(asked_b, "allow_once"))
        assert (await a.answer_to(id_))["result"]["stopReason"] == "end_turn"
        withdrawn = await a.wait_for(lambda m: m.get("method") == "$/cancel_request")
        assert withdrawn["params"]["requestId"] == asked_a["id"]
        assert (s.work / "x.txt").read_text() == "x\n"


async def test_a_turn_outlives_its_client_and_its_permission_waits_for_the_next(tmp_path: Path) -> None:
    async with shared(tmp_path) as s:
        async with s.client(answer_permission=None) as a:
            await a.initialize()
            session = await a.new_session(s.work)
            await a.begin_prompt(session, '@tool bash {"command": "echo y > y.txt"}\n@text the-end')
            await a.wait_for(lambda m: m.get("method") == "session/request_permission")
            a.process.send_signal(signal.SIGKILL)
            await a.process.wait()
        async with s.client(answer_permission="allow_once") as b:
            await b.initialize()
            await b.call("session/load", place(session, s.work))
            await b.wait_text(session, "the-end")
            assert (s.work / "y.txt").read_text() == "y\n"


async def test_a_second_shared_agent_says_so_and_ends(tmp_path: Path) -> None:
    async with shared(tmp_path) as s:
        environment = offline_environment(s.home) | s.environment
        second = await anyio.run_process([*AGENT[:-1], "serve"], env=environment, check=False)
        assert second.returncode == 1
        assert b"runs already" in second.stderr


async def test_a_restart_answers_what_was_lost_once_and_goes_on(tmp_path: Path) -> None:
    async with shared(tmp_path) as s, s.client() as a:
        await a.initialize()
        session = await a.new_session(s.work)
        await a.prompt(session, "@text before")
        id_ = await a.begin_prompt(session, "@deltas 5\n@sleep 30\n@text never")
        await a.wait_text(session, "tok4")
        os.kill(s.process.pid, signal.SIGHUP)
        error = (await a.answer_to(id_))["error"]
        assert error["code"] == -32603
        again = await a.prompt(session, "@text after")
        assert again["result"]["stopReason"] == "end_turn", again
        assert "before" in str(s.double.requests[-1].body)
        assert len(a.answers(id_)) == 1


async def test_a_restart_takes_up_marked_turns_if_the_settings_want_it(tmp_path: Path) -> None:
    async with shared(tmp_path, '{"resume_after_restart": true}') as s, s.client() as a:
        await a.initialize()
        session = await a.new_session(s.work)
        await a.begin_prompt(session, "@deltas 5\n@sleep 2\n@text the-end")
        await a.wait_text(session, "tok4")
        s.process.send_signal(signal.SIGHUP)
        history = s.home / "config" / "sessions" / session / "history.jsonl"
        await until(lambda: "turn_end" in history.read_text())
        await a.call("session/load", place(session, s.work))
        assert "the-end" in a.text(session)


async def test_clients_of_every_bad_kind_hurt_nobody(tmp_path: Path) -> None:
    async with shared(tmp_path) as s, s.client() as good:
        await good.initialize()
        session = await good.new_session(s.work)
        path = str(s.runtime / "iac-code" / "shared.sock")
        for _ in range(30):
            half = await anyio.connect_unix(path)
            await half.send(b'{"jsonrpc":"2.0","id":1,"meth')
            await half.aclose()
        silent = await anyio.connect_unix(path)
        rude = await anyio.connect_unix(path)
        await rude.send(b"[" * 100_000 + b"\n\xff\n{}\n")
        assert (await good.prompt(session, "@text fine"))["result"]["stopReason"] == "end_turn"
        await silent.aclose()
        await rude.aclose()
