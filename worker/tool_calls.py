"""Running the calls of one reply: decide, announce, ask, run, record, tell.

On disk a call with side effects is started before it starts, and its result stands before the model or
the client sees it. So a worker that dies leaves no doubt which calls may have had effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import to_thread
from pydantic import ValidationError

from shared.records import GrantRecord, ToolStartRecord
from worker import events as ev
from worker.audit import subject_of
from worker.permissions import Policy, call_of, decide, grant_scope, parse_outcome, permission_options
from worker.results import record_result
from worker.tools import describe_invalid_input, run_tool
from worker.tools.base import ToolOutput
from worker.updates import parent_meta, text_content

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from worker.audit import Audit
    from worker.history import History
    from worker.hooks import Hooks
    from worker.permissions import Call, Decision
    from worker.requests import ClientRequests
    from worker.steps import RunCalls
    from worker.tools.base import Tool, ToolContext, ToolInput

DENIED: Final = "Permission denied."
REPEATED: Final = (
    "\n\n[{name} was called with the same input again and again, many times in a row. Do something else, "
    "or say what is missing.]"
)
CANCELLED: Final = "The user cancelled this call before it ended. It may have had effect."


@dataclass(frozen=True, slots=True)
class Planned:
    """A call as it will be run, or the text of why it will not."""

    id: str
    name: str
    raw_input: dict[str, Any]
    tool: Tool[ToolInput] | None
    args: ToolInput | None
    judged: Call | None
    """As it is before any call of its reply has run."""
    decision: Decision | None
    refusal: str | None
    note: str
    """Added to the result for the model alone."""
    alone: bool
    """It is the only call of its reply that is left to run."""


@dataclass
class ToolCalls:
    """Runs calls for one turn. `parent` is the `agent` call that a sub-agent's calls belong to."""

    history: History
    grants: History
    """Where grants are kept: the session's own history, for a sub-agent too."""
    turn_id: str
    tools: dict[str, Tool[ToolInput]]
    policy: Callable[[], Policy]
    context: Callable[[str], ToolContext]
    cwd: Path
    client: ClientRequests
    emit: Callable[[ev.Event], Awaitable[None]]
    may_start: Callable[[], Awaitable[None]]
    """Returns when nothing of cancelled calls or of an earlier epoch runs any more."""
    announced: set[str] = field(default_factory=set)
    """Calls that the client was told of by an earlier epoch."""
    spent: Callable[[str], dict[str, int]] = lambda _call_id: {}
    """Tokens that sub-agents spent in a call."""
    parent: str | None = None
    hooks: Hooks | None = None
    find: Callable[[str], Awaitable[Tool[ToolInput] | None]] | None = None
    """Looks for a tool that is not among `tools` yet."""
    audit: Audit | None = None

    async def run(self, step: RunCalls) -> None:
        """Give every call of the step its result. Raises HistoryError."""
        planned = [await self._plan(call, step) for call in step.calls]
        for call in planned:
            await self._announce(call)
        while planned:
            together = 0
            while together < len(planned) and self._is_independent(planned[together]):
                together += 1
            if together > 1:
                async with anyio.create_task_group() as group:
                    for call in planned[:together]:
                        group.start_soon(self._run_one, call)
            else:
                await self._run_one(planned[0])
            del planned[: max(together, 1)]

    @staticmethod
    def _is_independent(call: Planned) -> bool:
        """It has no side effects and runs unasked, so its neighbours may run beside it."""
        return bool(
            call.refusal is None
            and call.tool
            and call.args is not None
            and call.tool.changes_nothing(call.args)
            and call.decision
            and call.decision.verdict == "allow"
        )

    async def _plan(self, call: dict[str, Any], step: RunCalls) -> Planned:
        call_id, name = call["id"], call["name"]
        raw_input = call["input"] if isinstance(call["input"], dict) else {}
        tool = self.tools.get(name)
        if tool is None and self.find is not None:
            tool = await self.find(name)
        args: ToolInput | None = None
        refusal: str | None = None
        if step.over:
            refusal = "Not run: the same call was made again and again. The turn ends here."
        elif step.refused:
            refusal = "Not run: the service refused the reply that this call is part of."
        elif step.cut and call is step.calls[-1]:
            refusal = (
                "Not run: the reply reached the output limit within this call, so its input may be cut. "
                "Make the call again in smaller parts."
            )
        elif call_id in step.malformed:
            came = step.malformed[call_id]
            refusal = f"Not run: the call's input is not valid JSON. What came: {came[:500]}"
        elif tool is None:
            refusal = f"There is no tool {name!r}. The tools are: {', '.join(sorted(self.tools))}."
        else:
            try:
                args = tool.Input.model_validate(raw_input)
            except ValidationError as e:
                refusal = describe_invalid_input(name, e)
        judged = decision = None
        if tool is not None and args is not None:
            judged = await self._judged(tool, args)
            decision = decide(judged, self.policy())
        note = REPEATED.format(name=name) if step.told else ""
        alone = len(step.calls) == 1
        return Planned(call_id, name, raw_input, tool, args, judged, decision, refusal, note, alone)

    async def _judged(self, tool: Tool[ToolInput], args: ToolInput) -> Call:
        # Resolving paths reads the file system, which may be slow or remote: never on the loop.
        call = await to_thread.run_sync(call_of, tool, args, self.cwd)
        return replace(call, crosses=call.crosses or await tool.crosses(args))

    async def _announce(self, call: Planned) -> None:
        if call.id in self.announced:
            return
        self.announced.add(call.id)
        title, locations, content = call.name, [], []
        kind = call.tool.kind if call.tool else "other"
        if call.tool is not None and call.args is not None:
            context = self.context(call.id)
            title = call.tool.title(call.args)
            locations = call.tool.locations(call.args, self.cwd)
            content = await call.tool.preview(call.args, context)
        at_once = call.refusal is None and call.decision is not None and call.decision.verdict == "allow"
        await self.emit(
            ev.ToolUseStart(
                call.id,
                title,
                kind,
                "in_progress" if at_once and (call.alone or self._is_independent(call)) else "pending",
                call.raw_input,
                locations,
                content,
                self.parent,
            )
        )

    async def _run_one(self, call: Planned) -> None:
        if call.refusal is not None or call.tool is None or call.args is None:
            await self._end(call, ToolOutput(call.refusal or "Not run.", is_error=True))
            return
        # Anew: while calls before it ran, a mode or a grant may have changed, or where its paths lead. A call
        # that is alone in its reply has waited for nothing, and what only reads checks what it has opened.
        judged = call.judged
        if judged is None or not (call.alone and call.tool.read_only):
            judged = await self._judged(call.tool, call.args)
        decision = decide(judged, self.policy())
        await self._audited(call, judged, decision.verdict, decision.by, decision.reason)
        if decision.verdict == "deny":
            await self._end(call, _denied(decision.reason))
            return
        if self.hooks is not None:
            await self.may_start()
            denied = await self.hooks.before_tool(call.name, call.raw_input)
            if denied is not None:
                await self._audited(call, judged, "deny", "hook", denied)
                await self._end(call, _denied(denied))
                return
        if decision.verdict == "ask" and not await self._permitted(call, judged, decision):
            await self._end(call, _denied(DENIED))
            return
        await self.may_start()
        if not call.tool.read_only:
            await self.history.write(
                ToolStartRecord(**self.history.stamp(), turn_id=self.turn_id, call_id=call.id, tool=call.name)
            )
        await self.emit(ev.ToolProgress(call.id, call.raw_input, parent_call_id=self.parent))
        context = replace(
            self.context(call.id),
            allow_private_addresses=judged.crosses is not None,
            permitted=judged.accesses,
        )
        output = await run_tool(call.tool, call.args, context)
        if self.hooks is not None:
            said = await self.hooks.after_tool(call.name, call.raw_input, output)
            if said is not None:
                call = replace(call, note=f"{call.note}\n\n[A hook of the user says: {said}]")
        await self._end(call, output)

    async def _permitted(self, call: Planned, judged: Call, decision: Decision) -> bool:
        """Ask the user. An "always" is durable before the tool runs."""
        assert call.tool is not None
        assert call.args is not None
        context = self.context(call.id)
        scope = grant_scope(judged, self.policy())
        content = await call.tool.preview(call.args, context)
        params: dict[str, Any] = {
            "toolCall": {
                "toolCallId": call.id,
                "title": call.tool.title(call.args),
                "kind": call.tool.kind,
                "status": "pending",
                "rawInput": call.raw_input,
                "content": [*text_content(decision.reason), *content],
            },
            "options": permission_options(scope),
        }
        locations = call.tool.locations(call.args, self.cwd)
        if locations:
            params["toolCall"]["locations"] = locations
        params["toolCall"] |= parent_meta(self.parent)
        result, error = await self.client.ask(f"{call.id}:permission", "session/request_permission", params)
        answer = parse_outcome(result, error=error is not None)
        allowed = answer in ("allow_once", "allow_always")
        await self._audited(call, judged, "allow" if allowed else "deny", "user", answer)
        if answer in ("allow_always", "reject_always"):
            await self.grants.write(
                GrantRecord(**self.grants.stamp(), tool=call.name, allow=allowed, scope=scope)
            )
        return allowed

    async def _audited(self, call: Planned, judged: Call, verdict: str, by: str, reason: str) -> None:
        if self.audit is not None and call.args is not None:
            told = {"verdict": verdict, "by": by, "reason": reason}
            await self.audit.write(self.turn_id, call.id, self.parent, subject_of(judged, call.args), told)

    async def _end(self, call: Planned, output: ToolOutput) -> None:
        await record_result(
            self.history,
            self.emit,
            self.turn_id,
            call.id,
            call.name,
            output,
            note=call.note,
            usage=self.spent(call.id),
            parent=self.parent,
        )


def _denied(reason: str) -> ToolOutput:
    text = reason if reason.startswith(DENIED) else f"{DENIED} {reason}"
    return ToolOutput(text, is_error=True, raw={"error": text})
