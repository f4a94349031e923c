"""Sub-agents: the `agent` tool's own loops, in the worker of the session, with a context of their own.

Their tool calls are shown below the call that started them and ask the user like any other. Their
conversation ends with the call, so it is kept in memory; a worker that dies takes the call with it, and
the call is an interrupted one like any tool's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from shared.records import AssistantRecord, UserRecord
from worker.agent_loop import AgentLoop, Brain
from worker.history import History
from worker.tools.base import ToolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from worker import events as ev
    from worker.tool_calls import ToolCalls
    from worker.tools.base import Delegate, Tool, ToolInput

MAX_DEPTH: Final = 2
MAX_RUNNING: Final = 4
REPORT: Final = (
    "\n\nYou are a sub-agent: nobody reads along. End with one message that reports what you found or did; "
    "it is all that the agent who sent you will see."
)


class Subagents:
    """The sub-agents of one turn."""

    def __init__(
        self,
        history: History,
        turn_id: str,
        think: Callable[[], Awaitable[Brain]],
        emit: Callable[[ev.Event], Awaitable[None]],
    ) -> None:
        self._history = history
        self._turn_id = turn_id
        self._think = think
        self._emit = emit
        self._running = 0
        self._spent: dict[str, dict[str, int]] = defaultdict(lambda: {"input": 0, "output": 0})
        self.calls: ToolCalls
        """The session's own; a sub-agent's are like them but for history, tools and parent."""

    def spent(self, call_id: str) -> dict[str, int]:
        """Tokens that the call's sub-agents took so far; empty if it had none."""
        return dict(self._spent[call_id]) if call_id in self._spent else {}

    def delegate(self, call_id: str, depth: int = 1) -> Delegate:
        """What the `agent` call of that id starts a sub-agent with."""

        async def run(prompt: str, agent_type: Literal["general", "explore"]) -> str:
            if depth > MAX_DEPTH:
                raise ToolError(f"Sub-agents may be nested {MAX_DEPTH} deep. Do this part yourself.")
            if self._running >= MAX_RUNNING:
                raise ToolError(f"{MAX_RUNNING} sub-agents run already. Wait for them, or do it yourself.")
            self._running += 1
            try:
                return await self._run(call_id, depth, prompt, agent_type)
            finally:
                self._running -= 1

        return run

    async def _run(self, call_id: str, depth: int, prompt: str, agent_type: str) -> str:
        history = History(None, 0, lambda _n: None)
        await history.write(
            UserRecord(**history.stamp(), turn_id=self._turn_id, blocks=[{"type": "text", "text": prompt}])
        )
        tools = _tools(self.calls.tools, agent_type, depth)
        outer = self.calls.context

        calls = replace(
            self.calls,
            history=history,
            tools=tools,
            context=lambda inner: replace(outer(inner), delegate=self.delegate(inner, depth + 1)),
            announced=set(),
            parent=call_id,
        )

        async def think() -> Brain:
            brain = await self._think()
            offered = [spec for spec in brain.tools if spec["name"] in tools]
            return replace(brain, system=brain.system + REPORT, tools=offered)

        async def emit(event: ev.Event) -> None:
            """Only what its calls do is shown; its text is the call's result."""

        loop = AgentLoop(history, self._turn_id, think, calls, emit)
        try:
            stop_reason = await loop.run()
        finally:
            self._count(call_id, history)
        replies = [record for record in history.records if isinstance(record, AssistantRecord)]
        text = "".join(b["text"] for b in replies[-1].blocks if b.get("type") == "text") if replies else ""
        if stop_reason != "end_turn":
            text += f"\n[The sub-agent stopped: {stop_reason}.]"
        return text.strip() or "The sub-agent ended without a report."

    def _count(self, call_id: str, history: History) -> None:
        spent = self._spent[call_id]
        for record in history.records:
            usage = getattr(record, "usage", {})
            for key in ("input", "output"):
                spent[key] += usage.get(key, 0) if isinstance(usage, dict) else 0


def _tools(tools: dict[str, Tool[ToolInput]], agent_type: str, depth: int) -> dict[str, Tool[ToolInput]]:
    offered = {name: tool for name, tool in tools.items() if agent_type == "general" or tool.read_only}
    if depth >= MAX_DEPTH:
        offered.pop("agent", None)
    return offered
