"""The ACP client of `ask` and `chat`, against small agents that behave and misbehave."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest

from supervisor.cli.acp_client import AcpClient, AgentEndedError, AgentError, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

PRELUDE = """
import json, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def read(): return json.loads(sys.stdin.readline())
"""


@asynccontextmanager
async def agent(
    program: str, updates: list[Any] | None = None, asked: Any = None
) -> AsyncIterator[AcpClient]:
    async def refuse(method: str, params: Any) -> dict[str, Any]:
        raise NotImplementedError

    on_update = updates.append if updates is not None else lambda _: None
    async with connect([sys.executable, "-c", PRELUDE + program], on_update, asked or refuse) as client:
        yield client


async def test_answers_find_their_requests_in_any_order() -> None:
    async with agent("""
a, b = read(), read()
send(id=b["id"], result=b["method"]); send(id=a["id"], result=a["method"])
sys.stdin.read()
""") as client:
        results: dict[str, Any] = {}

        async def ask(method: str) -> None:
            results[method] = await client.request(method, {})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "first")
            tasks.start_soon(ask, "second")
    assert results == {"first": "first", "second": "second"}


async def test_an_error_answer_raises_its_sentence() -> None:
    async with agent("""
send(id=read()["id"], error={"code": -32000, "message": "Auth", "data": {"details": "Log in."}})
send(id=read()["id"], error={"code": -32602, "message": "Invalid params", "data": {"cwd": "not absolute"}})
send(id=read()["id"], error={"code": 5})
sys.stdin.read()
""") as client:
        with pytest.raises(AgentError, match=r"^Log in\.$") as caught:
            await client.request("a", {})
        assert caught.value.code == -32000
        with pytest.raises(AgentError, match=r"Invalid params.*not absolute"):
            await client.request("b", {})
        with pytest.raises(AgentError):
            await client.request("c", {})


async def test_updates_and_junk_between_them_are_told_apart() -> None:
    updates: list[Any] = []
    async with agent(
        """
request = read()
print("stray"); print("[]"); print(""); print("{")
send(method="session/update", params={"n": 1})
send(method="other/notification", params={})
send(id="never asked", result={})
send(id=None, error={"code": -32700, "message": "Parse error"})
send(method="session/update", params={"n": 2})
send(id=request["id"], result={})
sys.stdin.read()
""",
        updates,
    ) as client:
        await client.request("go", {})
    assert updates == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("end", "said"),
    [("sys.exit(3)", "exit code 3"), ("import os; os.kill(os.getpid(), 9)", "signal 9")],
)
async def test_an_agent_that_ends_fails_what_waits_and_what_comes_later(end: str, said: str) -> None:
    async with agent(f"read(); {end}") as client:
        with pytest.raises(AgentEndedError, match=said):
            await client.request("a", {})
        with pytest.raises(AgentEndedError, match=said):
            await client.request("b", {})


async def test_the_agents_requests_are_answered_and_unknown_ones_refused() -> None:
    async def asked(method: str, params: Any) -> dict[str, Any]:
        if method != "double":
            raise NotImplementedError
        return {"n": 2 * params["n"]}

    async with agent(
        """
request = read()
send(id=7, method="double", params={"n": 4}); first = read()
send(id=8, method="explode", params={}); second = read()
send(id=request["id"], result=[first, second])
sys.stdin.read()
""",
        asked=asked,
    ) as client:
        first, second = await client.request("go", {})
    assert (first["id"], first["result"]) == (7, {"n": 8})
    assert (second["id"], second["error"]["code"]) == (8, -32601)


async def test_a_request_that_the_agent_withdraws_is_not_answered() -> None:
    withdrawn = anyio.Event()

    async def asked(method: str, params: Any) -> dict[str, Any]:
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.set()
        raise AssertionError("never reached")

    async with agent(
        """
request = read()
send(id=7, method="ask", params={})
send(method="$/cancel_request", params={"requestId": 7})
send(id=request["id"], result={})
sys.stdin.read()
""",
        asked=asked,
    ) as client:
        await client.request("go", {})
        with anyio.fail_after(10):
            await withdrawn.wait()


async def test_a_line_of_megabytes_arrives_whole() -> None:
    updates: list[Any] = []
    async with agent(
        """
request = read()
send(method="session/update", params={"t": "ä" * 3_000_000})
send(id=request["id"], result={})
""",
        updates,
    ) as client:
        await client.request("go", {})
    assert updates == [{"t": "ä" * 3_000_000}]


async def test_at_exit_an_agent_that_ignores_the_end_of_its_input_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("supervisor.cli.acp_client._END_WITHIN", 0.3)
    async with agent("""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
send(id=read()["id"], result=os.getpid())
while True: time.sleep(1)
""") as client:
        pid = await client.request("go", {})
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


async def test_the_agent_is_out_of_reach_of_the_terminals_ctrl_c() -> None:
    async with agent('import os; send(id=read()["id"], result=os.getpgid(0)); sys.stdin.read()') as client:
        assert await client.request("go", {}) != os.getpgid(0)
