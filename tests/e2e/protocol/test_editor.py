"""What the client's editor does for the agent: only what it offered, and the disk if it does not."""

from __future__ import annotations

import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.e2e.rig import rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.e2e.client import RawClient
    from tests.e2e.rig import Rig

    Answer = Callable[[str, dict[str, Any]], dict[str, Any] | None]

pytestmark = pytest.mark.anyio

READS = {"fs": {"readTextFile": True}}
WRITES = {"fs": {"readTextFile": False, "writeTextFile": True}}
BOTH = {"fs": {"readTextFile": True, "writeTextFile": True}}
NOT_FOUND = {"error": {"code": -32002, "message": "Resource not found"}}


@asynccontextmanager
async def offering(
    client: RawClient, capabilities: dict[str, Any], answer: Answer
) -> AsyncIterator[list[tuple[str, dict[str, Any]]]]:
    """The client offers this for a while and answers so. Yields what it was asked for, permissions aside."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def taken(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "session/request_permission":
            return None
        asked.append((method, params))
        return answer(method, params)

    client.answer_request = taken
    await client.initialize(**capabilities)
    try:
        yield asked
    finally:
        client.answer_request = None
        await client.initialize()


def buffers(texts: dict[str, str]) -> Answer:
    """An editor with these unsaved texts by path."""

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        path = params["path"]
        if method == "fs/write_text_file":
            texts[path] = params["content"]
            return {"result": {}}
        return {"result": {"content": texts[path]}} if path in texts else NOT_FOUND

    return answer


async def test_unsaved_text_is_read_and_edits_go_through_the_editor(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    (work / "a.txt").write_text("on disk\n")
    path = str(work / "a.txt")
    texts = {path: "not saved yet\n"}
    async with offering(r.client, BOTH, buffers(texts)) as asked:
        read = '@tool read_file {"path": "a.txt"}\n@text seen'
        edit = '@tool edit_file {"path": "a.txt", "old_string": "not saved", "new_string": "edited"}'
        await r.client.prompt(session, f"{read}\n{edit}\n@text done")
        assert "not saved yet" in r.asked()
        assert texts[path] == "edited yet\n"
        assert (work / "a.txt").read_text() == "on disk\n", "the editor saves, or not"
        new = str(work / "new.txt")
        await r.client.prompt(session, f'@tool write_file {{"path": "{new}", "content": "made"}}\n@text done')
        assert texts[new] == "made"
        assert {params["sessionId"] for _, params in asked} == {session}
        assert set(r.statuses(session).values()) == {"completed"}


@pytest.mark.parametrize("capabilities", [{}, {"fs": {}}, {"fs": None}, {"fs": {"readTextFile": False}}])
async def test_what_is_not_offered_is_never_asked_for(
    r: Rig, work: Path, capabilities: dict[str, Any]
) -> None:
    session = await r.client.new_session(work)
    (work / "a").write_text("disk")
    async with offering(r.client, capabilities, lambda _m, _p: NOT_FOUND) as asked:
        read = '@tool read_file {"path": "a"}\n@text seen'
        write = '@tool write_file {"path": "a", "content": "new"}'
        await r.client.prompt(session, f'{read}\n{write}\n@tool bash {{"command": "true"}}\n@text done')
    assert asked == []
    assert (work / "a").read_text() == "new"


async def test_each_half_of_fs_is_used_alone(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    (work / "a").write_text("disk")
    path = str(work / "a")
    for capabilities, method in ((READS, "fs/read_text_file"), (WRITES, "fs/write_text_file")):
        write = f'@tool write_file {{"path": "a", "content": "for {method}"}}'
        async with offering(r.client, capabilities, buffers({path: "unsaved"})) as asked:
            await r.client.prompt(session, f'@tool read_file {{"path": "a"}}\n@text x\n{write}\n@text y')
        assert {name for name, _ in asked} == {method}


@pytest.mark.parametrize(
    "answer",
    [
        NOT_FOUND,
        {"result": None},
        {"result": {}},
        {"result": {"content": 7}},
        {"result": "x"},
        {"error": "no"},
    ],
)
async def test_a_client_that_cannot_do_what_it_offered_costs_nothing(
    r: Rig, work: Path, answer: dict[str, Any]
) -> None:
    session = await r.client.new_session(work)
    (work / "a").write_text("from the disk")
    async with offering(r.client, READS, lambda _m, _p: answer) as asked:
        await r.client.prompt(session, '@tool read_file {"path": "a"}\n@text seen')
    assert len(asked) == 1
    assert "from the disk" in r.asked()
    assert set(r.statuses(session).values()) == {"completed"}


async def test_a_client_that_never_answers_is_given_up_on(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    (work / "a").write_text("from the disk")
    async with offering(r.client, BOTH, lambda _m, _p: None) as asked:
        seen = len(r.client.messages)
        with anyio.fail_after(20):
            await r.client.prompt(session, '@tool read_file {"path": "a"}\n@text seen')
        assert "from the disk" in r.asked()
        assert len(asked) == 1
        withdrawn = [m for m in r.client.messages[seen:] if m.get("method") == "$/cancel_request"]
        assert len(withdrawn) == 1


class Terminals:
    """A client that runs commands, one after the other, the moment a terminal is asked for."""

    def __init__(self) -> None:
        self.ran: dict[str, subprocess.CompletedProcess[str]] = {}
        self.released: list[str] = []
        self.killed: list[str] = []
        self.endless = False

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """By the standard."""
        if method == "terminal/create":
            id_ = f"term-{len(self.ran)}"
            self.ran[id_] = subprocess.run(
                [params["command"], *params["args"]],
                cwd=params["cwd"],
                env={entry["name"]: entry["value"] for entry in params["env"]} | {"PATH": "/usr/bin:/bin"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            return {"result": {"terminalId": id_}}
        ran = self.ran[params["terminalId"]]
        if method == "terminal/output":
            return {"result": {"output": ran.stdout, "truncated": False}}
        if method == "terminal/wait_for_exit":
            return None if self.endless else {"result": {"exitCode": ran.returncode}}
        {"terminal/kill": self.killed, "terminal/release": self.released}[method].append(params["terminalId"])
        return {"result": {}}


async def test_commands_run_in_the_editors_terminal_where_the_settings_ask_for_it(tmp_path: Path) -> None:
    settings = {"editor_terminal": True, "sandbox": {"enabled": False}}
    async with rig(tmp_path, settings=settings, capabilities={"terminal": True}) as r:
        client, terminals = r.client, Terminals()
        session = await client.new_session(r.work)
        bash = '@tool bash {"command": "%s"}\n@text done'
        async with offering(client, {"terminal": True}, terminals.answer) as asked:
            await client.prompt(session, bash % "echo in $PWD; exit 3")
            (ended,) = [u for u in client.updates(session, "tool_call_update") if "rawOutput" in u]
            assert ended["rawOutput"] == {"exitCode": 3, "output": f"in {r.work}\n"}
            assert ended["status"] == "failed"
            shown = [u["content"] for u in client.updates(session, "tool_call_update") if "content" in u]
            assert [{"type": "terminal", "terminalId": "term-0"}] in shown
            assert "in " in r.asked()
            assert terminals.released == ["term-0"]
            assert terminals.killed == []
            assert all("ANTHROPIC" not in str(params) for _, params in asked)

            # In the background a command outlives the call, so it is a process of ours.
            before = len(terminals.ran)
            await client.prompt(
                session, '@tool bash {"command": "true", "run_in_background": true}\n@text done'
            )
            assert len(terminals.ran) == before

            terminals.endless = True
            await client.prompt(session, '@tool bash {"command": "true", "timeout": 0.2}\n@text done')
            assert "timed out" in r.asked()
            assert terminals.killed == ["term-1"]
            turn = await client.begin_prompt(session, bash % "true")
            await client.wait_until(lambda: [m for m, _ in asked].count("terminal/wait_for_exit") == 3)
            await client.notify("session/cancel", {"sessionId": session})
            assert (await client.answer_to(turn))["result"]["stopReason"] == "cancelled"
            assert terminals.killed == ["term-1", "term-2"]
            assert terminals.released == ["term-0", "term-1", "term-2"]

        async with offering(client, {"terminal": True}, lambda _m, _p: NOT_FOUND) as asked:
            await client.prompt(session, bash % "echo own process")
            assert [method for method, _ in asked] == ["terminal/create"]
            assert "own process" in r.asked()
        async with offering(client, {}, terminals.answer) as asked:
            await client.prompt(session, bash % "echo not offered")
            assert asked == []


async def test_by_default_commands_run_in_a_process_of_ours(r: Rig, work: Path) -> None:
    session = await r.client.new_session(work)
    async with offering(r.client, {"terminal": True}, Terminals().answer) as asked:
        await r.client.prompt(session, '@tool bash {"command": "echo mine"}\n@text done')
    assert asked == []
