"""The official Python SDK drives the agent, with its own models of every message."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import acp
import pytest
from acp import schema

from tests.clients.installed import RecordedAgent

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


class Editor:
    """A client: keeps what comes as the SDK's objects, and reads and writes real files."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.decisions: list[str] = []
        self.asked: list[schema.ToolCallUpdate] = []
        self.written: list[str] = []

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **kwargs: Any,
    ) -> schema.RequestPermissionResponse:
        """Answer with the next decision."""
        self.asked.append(tool_call)
        chosen = next(option for option in options if option.kind == self.decisions[0])
        del self.decisions[0]
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Keep it."""
        self.updates.append((session_id, update))

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> schema.ReadTextFileResponse:
        """From the disk."""
        return schema.ReadTextFileResponse(content=Path(path).read_text())  # noqa: ASYNC240 - a test's file

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> None:
        """To the disk."""
        self.written.append(path)
        Path(path).write_text(content)  # noqa: ASYNC240 - a test's file

    def text(self, session_id: str) -> str:
        """What the agent said in a session."""
        return "".join(
            update.content.text
            for session, update in self.updates
            if session == session_id and isinstance(update, schema.AgentMessageChunk)
        )

    def calls(self, session_id: str) -> list[str]:
        """The end of each call of a session."""
        return [
            update.status
            for session, update in self.updates
            if session == session_id
            and isinstance(update, schema.ToolCallProgress)
            and update.status in ("completed", "failed")
        ]


@pytest.mark.parametrize("dialect", ["both", "acp"])
async def test_a_python_client_can_do_everything(tmp_path: Path, dialect: str) -> None:
    agent = RecordedAgent(tmp_path, IAC_CODE_DIALECT=dialect)
    editor, work = Editor(), str(agent.work)
    command, *arguments = agent.command
    capabilities = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    )
    async with acp.spawn_agent_process(
        cast("Any", editor), command, *arguments, env=agent.environment, cwd=work, use_unstable_protocol=True
    ) as (connection, process):
        initialized = await connection.initialize(acp.PROTOCOL_VERSION, capabilities)
        assert initialized.protocol_version == 1
        assert initialized.agent_info is not None
        assert initialized.agent_info.name == "iac-code"

        session = (await connection.new_session(work)).session_id

        async def prompt(words: str, of: str = session) -> str:
            return (await connection.prompt(of, [acp.text_block(words)])).stop_reason

        assert await prompt("say hello") == "end_turn"
        assert "hello" in editor.text(session)
        editor.decisions = ["allow_once", "reject_once", "allow_always"]
        assert await prompt("write made.txt: by the editor") == "end_turn"
        assert editor.written == [f"{work}/made.txt"]
        assert await prompt("run touch denied") == "end_turn"
        assert await prompt("run touch always") == "end_turn"
        assert await prompt("run touch unasked") == "end_turn"
        assert editor.calls(session) == ["completed", "failed", "completed", "completed"]
        assert [call.kind for call in editor.asked] == ["edit", "execute", "execute"]
        there = [(agent.work / name).exists() for name in ("denied", "always", "unasked")]
        assert there == [False, True, True]

        set_to = await connection.set_config_option("mode", session, "plan")
        assert [option.current_value for option in set_to.config_options] == ["plan", "offline", "off"]
        await connection.set_session_mode(session, "default")
        forked = (await connection.fork_session(session, work)).session_id
        assert await prompt("say forked", forked) == "end_turn"
        listed = await connection.list_sessions(cwd=work)
        assert {info.session_id for info in listed.sessions} == {session, forked}
        before = len(editor.updates)
        await connection.load_session(work, session)
        replayed = [type(update) for of, update in editor.updates[before:] if of == session]
        assert replayed[0] is schema.UserMessageChunk
        assert replayed.count(schema.ToolCallStart) == 4
        await connection.close_session(session)
        await connection.resume_session(session, work)
        assert await prompt("say resumed") == "end_turn"
        with pytest.raises(acp.RequestError) as refused:
            await prompt("x", "gone")
        assert refused.value.code == -32602
        await connection.cancel(session)
    assert process.returncode is not None
    agent.check(dialect)
