"""Bad connections to a shared agent: refused or ended with a reason in the log, noticed by nobody."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from supervisor.cli.ps import SOCKET_NAME, query
from tests.e2e.rig import until
from tests.e2e.shared_agent import COMMAND, place, shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.shared_agent import Shared

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(150)]
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
_STRANGER = """
import os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
made = socket.socket(socket.AF_UNIX)
made.connect(sys.argv[1])
try:
    made.sendall(sys.argv[2].encode() + b"\\n")
    made.settimeout(20)
    print(made.recv(100))
except OSError as e:
    print(b"")
"""


def connections(s: Shared) -> int:
    """Clients that have a session."""
    (path,) = s.socket.parent.glob(f"*/{SOCKET_NAME}")
    state = query(path)
    assert state is not None
    return int(state["connections"])


async def test_clients_of_every_bad_kind_hurt_nobody(s: Shared) -> None:
    async with s.client() as good, AsyncExitStack() as open_ones:
        await good.initialize()
        session = await good.new_session(s.work)
        path = str(s.socket)
        for _ in range(30):
            half = await anyio.connect_unix(path)
            await half.send(b'{"jsonrpc":"2.0","id":1,"meth')
            await half.aclose()
        # Half a line, and it stays; before its initialize, and after.
        for begin in (b"", INITIALIZE):
            stays = await open_ones.enter_async_context(await anyio.connect_unix(path))
            await stays.send(begin + b'{"jsonrpc":"2.0","id":1,"meth')
        rude = await open_ones.enter_async_context(await anyio.connect_unix(path))
        await rude.send(b"[" * 100_000 + b"\n\xff\n{}\n" + INITIALIZE + b"[" * 100_000 + b"\n\xff\n{}\n[]\n")
        # One that dies between request and answer, in whatever it has asked.
        load = {"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": place(session, s.work)}
        text = [{"type": "text", "text": "@text of-one-that-died\n@sleep 0.2"}]
        prompt = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt"}
        prompt["params"] = {"sessionId": session, "prompt": text}
        new = {"jsonrpc": "2.0", "id": 3, "method": "session/new", "params": {"cwd": str(s.work)}}
        for requests in ([load], [load, prompt], [prompt], [new], [load, load, load]):
            dies = await anyio.connect_unix(path)
            await dies.send(INITIALIZE + b"".join(json.dumps(each).encode() + b"\n" for each in requests))
            await dies.aclose()
        assert (await good.prompt(session, "@text fine"))["result"]["stopReason"] == "end_turn"
        await good.wait_until(
            lambda: good.text(session).count("of-one-that-died") == 2
        )  # they run all the same
        await until(lambda: connections(s) == 1)
        closed = await good.call("session/close", {"sessionId": session})
        assert (closed, connections(s)) == ({}, 0), "no dead client keeps it open"


async def test_a_client_that_never_reads_is_cut_and_the_others_and_the_worker_go_on(s: Shared) -> None:
    async with s.client() as good:
        await good.initialize()
        session = await good.new_session(s.work)
        async with await anyio.connect_unix(str(s.socket)) as stuck:
            load = {"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": place(session, s.work)}
            await stuck.send(INITIALIZE + json.dumps(load).encode() + b"\n")
            answered = b""
            while b'"id":1' not in answered:
                answered += await stuck.receive()
            # It reads nothing from here on. A big file is shown in each call's result.
            (s.work / "big.txt").write_text("0123456789abcdef\n" * 50_000)
            reads = "\n".join('@tool bash {"command": "cat big.txt"}' for _ in range(8))
            turns = 0
            while not s.logged("a client does not read"):
                assert (await good.prompt(session, reads))["result"]["stopReason"] == "end_turn"
                turns += 1
                assert turns < 60, "it is not cut"
            async for _ in stuck:
                pass  # what had been written; then its end
        async with s.client() as again:
            await again.initialize()
            await again.call("session/load", place(session, s.work))
            assert again.text(session) == good.text(session)


async def test_a_flood_of_connections_and_hundreds_of_idle_clients_are_borne(s: Shared) -> None:
    async with s.client() as good:
        await good.initialize()
        session = await good.new_session(s.work)
        sockets = []
        try:
            for number in range(600):
                made = socket.socket(socket.AF_UNIX)
                await anyio.to_thread.run_sync(made.connect, str(s.socket))
                sockets.append(made)
                if number < 200:
                    made.sendall(INITIALIZE)
            assert (await good.prompt(session, "@text fine"))["result"]["stopReason"] == "end_turn"
            await until(lambda: s.logged("a client was refused"))
            assert sum("a client was refused" in entry["message"] for entry in s.log()) < 12
            descriptors = psutil.Process(s.process.pid).num_fds()
        finally:
            for made in sockets:
                made.close()
        await until(lambda: psutil.Process(s.process.pid).num_fds() < descriptors - 400)
        # A pipe that finds no room says so in the end; here there is room again.
        async with s.client() as late:
            await late.initialize()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
async def test_another_users_connection_is_refused_though_it_reaches_the_socket(tmp_path: Path) -> None:
    async with shared(tmp_path) as s, s.client() as good:
        await good.initialize()
        for folder, mode in ((s.runtime, 0o755), (s.socket.parent, 0o755), (s.socket, 0o666)):
            folder.chmod(mode)
        control = next(s.socket.parent.glob("*/ps.sock"))
        for folder, mode in ((control.parent, 0o755), (control, 0o666)):
            folder.chmod(mode)
        for path, asks in ((s.socket, INITIALIZE.decode().strip()), (control, "{}")):
            program = [sys.executable, "-c", _STRANGER, str(path), asks]
            answered = await anyio.run_process(program, stderr=subprocess.PIPE)
            assert answered.stdout == b"b''\n", answered
        assert s.logged("it is another user's")
        assert s.logged("another user asked")
        await good.new_session(s.work)


async def test_what_is_wrong_in_the_runtime_folder_is_put_right_and_told(tmp_path: Path) -> None:
    async with shared(tmp_path) as s:
        assert (await s.run("stop")).returncode == 0
        await s.process.wait()
        await s.process.aclose()
        s.socket.parent.chmod(0o777)
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(s.socket))
        started = await anyio.open_process(
            [*COMMAND, "serve"], env=s.whole, stderr=subprocess.PIPE, start_new_session=True
        )
        s.process = started
        await until(lambda: s.logged("had mode 777"))
        await until(lambda: s.logged("was left by a shared agent that was killed"))
        assert s.socket.parent.stat().st_mode & 0o777 == 0o700
        assert s.socket.stat().st_mode & 0o777 == 0o600
        async with s.client() as client:
            await client.initialize()
        # What is no socket was not left by an agent, and is not removed.
        assert (await s.run("stop")).returncode == 0
        await s.process.wait()
        s.socket.mkdir()
        refused = await s.run("serve")
        assert (refused.returncode, b"cannot be made" in refused.stderr) == (1, True), refused.stderr
        s.socket.rmdir()
        s.process = await s.serve()


async def test_a_session_of_a_newer_version_is_refused_with_a_sentence_and_an_older_one_opens(
    s: Shared,
) -> None:
    async with s.client() as client:
        await client.initialize()
        session = await client.new_session(s.work)
        await client.prompt(session, "@text kept")
        await client.call("session/close", {"sessionId": session})
        path = s.home / "config" / "sessions" / session / "meta.json"
        meta = json.loads(path.read_text())
        path.write_text(json.dumps({**meta, "version": meta["version"] + 1, "of_the_future": [1]}))
        for method in ("session/load", "session/resume", "session/fork"):
            error = (await client.request(method, place(session, s.work)))["error"]
            assert error["code"] == -32603
            assert "newer iac-code" in error["data"]["details"]
        # An older one lacks what was added since.
        old = {key: meta[key] for key in ("session_id", "cwd", "created", "updated", "version")}
        path.write_text(json.dumps(old))
        await client.call("session/load", place(session, s.work))
        assert "kept" in client.text(session)
        assert (await client.prompt(session, "@text on"))["result"]["stopReason"] == "end_turn"
