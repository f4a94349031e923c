"""Servers made with the official SDK, over stdio, Streamable HTTP and SSE on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from shared.mcp_servers import RemoteServer, StdioServer
from tests.supervisor.test_imports import loaded_by
from tests.worker.mcp.conftest import HERE, having, raw, sdk
from worker.mcp.failures import ServerFailure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worker.tools.processes import Processes

pytestmark = pytest.mark.anyio


def serving(kind: str, port: int = 0) -> tuple[subprocess.Popen[str], int]:
    """The SDK's server on a port of loopback."""
    argv = [sys.executable, str(HERE / "sdk_server.py"), kind, str(port)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture(scope="module")
def http() -> Iterator[RemoteServer]:
    process, port = serving("http")
    yield RemoteServer(type="http", name="sdk", url=f"http://127.0.0.1:{port}/mcp")
    end(process)


@pytest.fixture(scope="module")
def sse() -> Iterator[RemoteServer]:
    process, port = serving("sse")
    yield RemoteServer(type="sse", name="sdk", url=f"http://127.0.0.1:{port}/sse")
    end(process)


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_a_server_of_the_sdk_is_used_over_each_transport(
    processes: Processes, tmp_path: Path, transport: str, http: RemoteServer, sse: RemoteServer
) -> None:
    configs: dict[str, StdioServer | RemoteServer] = {"stdio": sdk(SECRET="of the server")}
    config = (configs | {"http": http, "sse": sse})[transport]
    async with having(processes, tmp_path, config) as had:
        await had.ready("sdk")
        tools = had.servers.tools
        assert tools["mcp__sdk__echo"].read_only
        assert not tools["mcp__sdk__write"].read_only
        assert tools["mcp__sdk__echo"].description == "Repeats a text."
        schema = tools["mcp__sdk__echo"].schema
        assert schema is not None
        assert schema["properties"]["text"]["type"] == "string"
        assert "Say please to echo." in had.servers.instructions()

        assert (await had.call("mcp__sdk__echo", text="ö")).text == "echo: ö"
        assert (await had.call("mcp__sdk__write", text="x")).text == "wrote x"
        assert "[image: image/png]" in (await had.call("mcp__sdk__picture")).text
        assert (await had.call("mcp__sdk__measured")).text.count('"width"') == 1
        failed = await had.call("mcp__sdk__fails")
        assert failed.is_error
        assert failed.text == "Error executing tool fails"
        wrong = await had.call("mcp__sdk__echo", wrong=1)
        assert wrong.is_error

        shown: list[str] = []
        async with anyio.create_task_group() as calls:

            async def slow() -> None:
                await had.call("mcp__sdk__slow", shown)

            calls.start_soon(slow)
            with anyio.fail_after(20):
                while not shown:  # noqa: ASYNC110 - a list has no event
                    await anyio.sleep(0.01)
            calls.cancel_scope.cancel()
        assert shown == ["1 of 3: one of three"]

        assert (await had.call("mcp__sdk__grow")).text == "grew"
        await had.until(lambda: "mcp__sdk__grown" in had.servers.tools)
        assert (await had.call("mcp__sdk__grown")).text == "new"
        if transport == "stdio":
            said = (await had.call("mcp__sdk__variables", name="SECRET")).text
            assert said == f"of the server in {tmp_path}"


async def test_prompts_are_commands_with_their_arguments(processes: Processes, tmp_path: Path) -> None:
    async with having(processes, tmp_path, sdk()) as had:
        await had.ready("sdk")
        (command,) = had.servers.commands()
        assert command["name"] == "mcp__sdk__review"
        assert command["description"] == "Reviews a file."
        assert command["input"]["hint"] == "file [style]"
        text = await had.servers.prompt("mcp__sdk__review", "main.tf very long")
        assert text == "Review main.tf in a very long style."
        assert await had.servers.prompt("mcp__sdk__review", "style=dry a.py") == "Review a.py in a dry style."
        assert await had.servers.prompt("mcp__sdk__none", "") is None
        with pytest.raises(ServerFailure, match="needs file"):
            await had.servers.prompt("mcp__sdk__review", "")


async def test_a_result_of_50_mb_over_http_is_bounded(
    processes: Processes, tmp_path: Path, http: RemoteServer
) -> None:
    async with having(processes, tmp_path, http) as had:
        await had.ready("sdk")
        output = await had.call("mcp__sdk__much", mib=50)
        assert not output.is_error, output.text[:300]
        assert len(output.text) < 40_000
        assert not (await had.call("mcp__sdk__echo", text="still here")).is_error


async def test_a_http_server_that_was_restarted_is_found_again(processes: Processes, tmp_path: Path) -> None:
    process, port = serving("http")
    try:
        config = RemoteServer(type="http", name="sdk", url=f"http://127.0.0.1:{port}/mcp")
        async with having(processes, tmp_path, config) as had:
            assert not (await had.call("mcp__sdk__echo", text="a")).is_error
            end(process)
            lost = await had.call("mcp__sdk__echo", text="b")
            assert lost.is_error
            assert "MCP server 'sdk'" in lost.text
            process, _ = serving("http", port)
            await had.until(lambda: "ready" in had.servers.status()[0])
            assert (await had.call("mcp__sdk__echo", text="c")).text == "echo: c"
    finally:
        end(process)


async def test_a_server_that_wants_a_login_tells_how(processes: Processes, tmp_path: Path) -> None:
    metadata = "https://mcp.example/.well-known/oauth-protected-resource"
    head = f'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer resource_metadata="{metadata}"\r\n'
    seen: list[bytes] = []

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            seen.append(await stream.receive())
            await stream.send(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, refuse)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        for kind in ("http", "sse"):
            config = RemoteServer.model_validate(
                {"type": kind, "name": "locked", "url": f"http://127.0.0.1:{port}/mcp?key=s3cret-key"}
            )
            async with having(processes, tmp_path, config, raw("good", name="good")) as had:
                await had.until(lambda: "failed" in had.servers.status()[0])
                (notice,) = had.servers.notices()
                assert "wants a login (HTTP 401)" in notice
                assert "Authorization" in notice
                assert metadata in notice
                assert "s3cret" not in notice
                assert not (await had.call("mcp__good__do")).is_error
        tasks.cancel_scope.cancel()
    assert b"POST" in seen[0]


async def test_headers_and_settings_reach_a_server(processes: Processes, tmp_path: Path) -> None:
    of_settings = [sdk(SECRET="settings"), sdk("second", SECRET="own")]
    async with having(processes, tmp_path, sdk(SECRET="client"), of_settings=of_settings) as had:
        assert "client in" in (await had.call("mcp__sdk__variables", name="SECRET")).text
        assert "own in" in (await had.call("mcp__second__variables", name="SECRET")).text
        assert len(had.servers.status()) == 2


def test_a_worker_loads_no_sdk_of_mcp_before_it_has_servers() -> None:
    assert loaded_by("worker.main").isdisjoint({"mcp", "mcp_types", "starlette", "jsonschema"})


async def test_other_servers_take_the_place_of_the_first(processes: Processes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    kept = raw("pid", name="kept")
    async with having(processes, tmp_path, kept, raw("good", str(log), name="old")) as had:
        await had.ready("old")
        pid = (await had.call("mcp__kept__do")).text
        had.servers.use([kept, raw("good", name="new")], [])
        await had.ready("new")
        assert sorted(had.servers.tools) == ["mcp__kept__do", "mcp__new__do"]
        assert (await had.call("mcp__kept__do")).text == pid != str(os.getpid())
