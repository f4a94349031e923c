"""A session that a person drives from the terminal: opening it, turns, permissions, Ctrl-C."""

from __future__ import annotations

import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from supervisor.cli import consent
from supervisor.cli.acp_client import AcpClient, AgentEndedError, AgentError, connect
from supervisor.cli.failure import CommandError
from supervisor.cli.terminal import console, harmless

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import TaskStatus

    from supervisor.cli.transcript import Transcript

AGENT = (sys.executable, "-P", "-m", "supervisor.cli.main", "acp")
"""The agent of the same installation, whatever `iac-code` on the PATH is. -P: it is started in the user's
project, and no module may come from there."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the options of `ask` and `chat` choose."""

    session: str | None
    cwd: str | None
    model: str | None
    mode: str | None
    yes: bool


class Conversation:
    """One agent and its current session. Made by `converse`."""

    def __init__(self, choices: Choices, transcript: Transcript | None) -> None:
        self._choices = choices
        self._transcript = transcript
        self._dialogs = anyio.Lock()
        self.client: AcpClient
        self.session_id: str

    async def open(self, session_id: str | None) -> None:
        """Start a new session, or go on with a stored one. Raises CommandError (the agent's among them)."""
        cwd = str(await anyio.Path(self._choices.cwd or ".").resolve())
        if session_id is None:
            answer = await self.client.request("session/new", {"cwd": cwd, "mcpServers": []})
            self.session_id = answer["sessionId"]
        else:
            if self._choices.cwd is None:
                cwd = await self._stored_cwd(session_id)
            params = {"sessionId": session_id, "cwd": cwd, "mcpServers": []}
            await self.client.request("session/resume", params)
            self.session_id = session_id
        for option, value in (("model", self._choices.model), ("mode", self._choices.mode)):
            if value is not None:
                params = {"sessionId": self.session_id, "configId": option, "value": value}
                await self.client.request("session/set_config_option", params)

    async def _stored_cwd(self, session_id: str) -> str:
        """The folder of a stored session: resuming it in another one is an error."""
        cursor: dict[str, str] = {}
        while True:
            page = await self.client.request("session/list", cursor)
            for session in page["sessions"]:
                if session["sessionId"] == session_id:
                    return str(session["cwd"])
            if not page.get("nextCursor"):
                raise CommandError(f"There is no session {session_id}; `iac-code sessions list` shows all.")
            cursor = {"cursor": page["nextCursor"]}

    async def turn(self, text: str) -> str | None:
        """Send a prompt and wait for its end; the stop reason.

        Ctrl-C cancels the turn; a second one means that the person wants to leave at once: None.
        Raises AgentError, AgentEndedError.
        """
        stop_reason: str | None = None
        failure: AgentError | AgentEndedError | None = None
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._cancel_on_interrupt, tasks.cancel_scope)
            try:
                params = {"sessionId": self.session_id, "prompt": [{"type": "text", "text": text}]}
                stop_reason = (await self.client.request("session/prompt", params))["stopReason"]
            except (AgentError, AgentEndedError) as e:
                # Kept out of the task group, which would wrap it.
                failure = e
            tasks.cancel_scope.cancel()
        if self._transcript is not None:
            self._transcript.end()
        if failure is not None:
            raise failure
        return stop_reason

    async def _cancel_on_interrupt(
        self, turn: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
            task_status.started()
            cancelling = False
            async for _ in interrupts:
                if cancelling:
                    turn.cancel()
                    return
                cancelling = True
                await self.cancel()

    async def cancel(self) -> None:
        """Ask the agent to end the running turn."""
        if self._transcript is not None:
            # What streams on the same terminal would be drawn over the notice.
            self._transcript.end()
        console(stderr=True).print("\nCancelling; Ctrl-C again to quit.", style="dim")
        await self.client.notify("session/cancel", {"sessionId": self.session_id})

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        """The answer to a request of the agent: permissions only, nothing else was advertised."""
        if method != "session/request_permission":
            raise NotImplementedError
        options, call = params["options"], params["toolCall"]
        if self._choices.yes:
            return consent.selected(options, "allow_once")
        if self._transcript is None or not sys.stdin.isatty():
            return consent.selected(options, "reject_once")
        # Tools may run in parallel; their dialogs may not.
        async with self._dialogs:
            self._transcript.hold()
            try:
                self._transcript.show_question(call["toolCallId"], call.get("content") or [])
                title = " ".join(harmless(call.get("title", "this tool")).split())
                return consent.selected(options, await consent.ask(title, options))
            except KeyboardInterrupt:
                await self.cancel()
                return consent.CANCELLED
            finally:
                self._transcript.release()


@asynccontextmanager
async def converse(
    choices: Choices, transcript: Transcript | None, on_update: Callable[[dict[str, Any]], None]
) -> AsyncIterator[Conversation]:
    """Start the agent and open the session. Without a transcript nobody is asked: permission is denied."""
    conversation = Conversation(choices, transcript)
    async with connect(AGENT, on_update, conversation.answer) as client:
        conversation.client = client
        await client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        await conversation.open(choices.session)
        yield conversation
