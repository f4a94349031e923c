"""Sub-agents: the `agent` tool's own loops, in the worker of the session, with a context of their own.

Their tool calls are shown below the call that started them and ask the user like any other. Their
conversation ends with the call, so it is kept in memory; a worker that dies takes the call with it, and
the call is an interrupted one like any tool's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import anyio

from shared.records import AssistantRecord, UserRecord
from worker.agent_loop import AgentLoop, Brain
from worker.history import History
from worker.models.base import ModelError
from worker.steps import RunCalls, next_step
from worker.tools.base import ToolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from worker import events as ev
    from worker.tool_calls import ToolCalls
    from worker.tools.base import Delegate, Tool, ToolContext, ToolInput

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
        self._running = anyio.Semaphore(MAX_RUNNING)
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
            # No more than `MAX_DEPTH` of them wait for one another, so some always go on.
            async with self._running:
                return await self._run(call_id, depth, prompt, agent_type)

        return run

    async def _run(self, call_id: str, depth: int, prompt: str, agent_type: str) -> str:
        history = History(None, 0, lambda _n: None)
        await history.write(
            UserRecord(**history.stamp(), turn_id=self._turn_id, blocks=[{"type": "text", "text": prompt}])
        )
        tools = _tools(self.calls.tools, agent_type, depth)

        def context(inner: str) -> ToolContext:
            of_session = self.calls.context(inner)
            # It may change what it has read itself; what others read it has not seen.
            return replace(of_session, delegate=self.delegate(inner, depth + 1), stamps=history.stamps())

        calls = replace(
            self.calls,
            history=history,
            tools=tools,
            context=context,
            announced=set(),
            parent=call_id,
            find=None,
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
        except ModelError as e:
            raise ToolError(f"The sub-agent could not go on: {e}") from e
        finally:
            self._count(call_id, history)
        replies = [record for record in history.records if isinstance(record, AssistantRecord)]
        text = "".join(b["text"] for b in replies[-1].blocks if b.get("type") == "text") if replies else ""
        if stop_reason != "end_turn":
            text += f"\n[The sub-agent stopped: {stop_reason}.]"
        return text.strip() or "The sub-agent ended without a report."

    def _count(self, call_id: str, history: History) -> None:
        """Add what the sub-agent spent to its call, and what those it had sent spent that never returned."""
        used = [getattr(record, "usage", {}) for record in history.records]
        step = next_step(history.of_turn(self._turn_id))
        if isinstance(step, RunCalls):
            used += [self.spent(call["id"]) for call in step.calls]
        for key in ("input", "output"):
            self._spent[call_id][key] += sum(usage.get(key, 0) for usage in used)


def _tools(tools: dict[str, Tool[ToolInput]], agent_type: str, depth: int) -> dict[str, Tool[ToolInput]]:
    # The user sees one plan, the session's.
    withheld = {"todo", "agent"} if depth >= MAX_DEPTH else {"todo"}
    return {
        name: tool
        for name, tool in tools.items()
        if name not in withheld and (agent_type == "general" or tool.read_only)
    }
