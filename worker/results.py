"""The end of a call: its result on disk first, then told to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from shared.records import ToolResultRecord
from worker import events as ev
from worker.updates import text_content

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from worker.history import History
    from worker.tools.base import ToolOutput


async def record_result(
    history: History,
    emit: Callable[[ev.Event], Awaitable[None]],
    turn_id: str,
    call_id: str,
    tool: str,
    output: ToolOutput,
    *,
    note: str = "",
    usage: dict[str, int] | None = None,
    parent: str | None = None,
    interrupted: bool = False,
) -> None:
    """Make a call's result durable, then tell the client that the call ended."""
    record = ToolResultRecord(
        **history.stamp(),
        turn_id=turn_id,
        call_id=call_id,
        tool=tool,
        text=output.text + note,
        is_error=output.is_error,
        interrupted=interrupted,
        content=output.content or text_content(output.text),
        raw_output=output.raw or {"error" if output.is_error else "output": output.text},
        stamps={stamp.path: stamp.digest for stamp in output.stamps},
        usage=usage or {},
    )
    await history.write(record)
    await emit(result_event(record, parent))


def result_event(record: ToolResultRecord, parent: str | None = None) -> ev.ToolResult:
    """What the client is told of a recorded result."""
    status = "failed" if record.is_error else "completed"
    return ev.ToolResult(
        record.call_id,
        cast("Any", status),
        record.content,
        record.raw_output,
        parent,
    )
