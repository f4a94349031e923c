"""A session's records in this worker: what the disk has, and what follows from them.

Each write is durable when it returns, off the event loop, and only then in memory; a write that fails
leaves both as they were. What repair changed at load is written back with the next success.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import anyio
from anyio import to_thread

from shared.collector import collector_paused
from shared.journal import Journal
from shared.repair import repair
from worker.conversation import Conversation
from worker.steps import tool_uses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from pathlib import Path

    from shared.lines import Problem
    from shared.records import AssistantRecord, CompactionRecord, Record
    from worker.context import Context


class HistoryError(Exception):
    """The history could not be written or read; `str()` says why, and what to do."""

    @classmethod
    def of(cls, error: OSError, doing: str) -> HistoryError:
        """From the operating system's error while `doing` something to the history."""
        return cls(
            f"The session's history could not be {doing}: {error.strerror or error}. "
            "Nothing was lost that you were shown as done; free space or repair the disk, then send again."
        )


class Stamp(TypedDict):
    """The members that every record has."""

    epoch: int
    time: float


class _Held:
    """The records in memory, and what is looked up in them several times a tool call."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records: list[Record] = []
        self.turns: dict[str, list[Record]] = {}
        self.unended: set[str] = set()
        """Turns that have no end yet."""
        self.grants: dict[str, bool] = {}
        self.stamps: dict[str, str] = {}
        self.requests: list[AssistantRecord | CompactionRecord] = []
        self.call_ids: set[str] = set()
        self.conversation = Conversation()
        self.add(records)

    def add(self, records: Sequence[Record]) -> None:
        self.records += records
        turns, turn, of_turn = self.turns, None, []
        for record in records:
            if record.kind == "grant":
                self.grants[f"{record.tool}:{record.scope}" if record.scope else record.tool] = record.allow
            elif record.kind == "compaction":
                self.requests.append(record)
                turns.setdefault(record.turn_id, []).append(record)
            elif record.kind != "clear":
                if record.turn_id != turn:
                    turn = record.turn_id
                    of_turn = turns.setdefault(turn, [])
                    self.unended.add(turn)
                of_turn.append(record)
                if record.kind == "tool_result":
                    self.stamps.update(record.stamps)
                elif record.kind == "assistant":
                    self.requests.append(record)
                    self.call_ids.update(call["id"] for call in tool_uses(record))
                elif record.kind == "turn_end":
                    self.unended.discard(turn)


class _Repaired(NamedTuple):
    held: _Held
    added: list[Record] | None
    """Records that repair puts at the end of what is `held`; None: it changed more than that."""


class History:
    """The records of one session, append-only."""

    def __init__(self, path: Path | None, epoch: int, written: Callable[[int], None]) -> None:
        """`path` None keeps the records in memory only: a sub-agent's conversation ends with its call.

        `written` is told the number of records that became durable.
        """
        self._journal = Journal(path) if path is not None else None
        self._epoch = epoch
        self._written = written
        self._writing = anyio.Lock()
        self._unsaved = False
        self.no_summary_of: int | None = None
        """So many tokens were in the context when no summary of it was to be had."""
        self._held = _Held()

    @property
    def records(self) -> list[Record]:
        """All of them, in order; not to be changed."""
        return self._held.records

    async def load(self, resuming: str | None) -> list[Problem]:
        """Read and repair the history, all but the open calls of turn `resuming`.

        Returns what could not be read and was set aside. Raises HistoryError if nothing can be read.
        """
        journal = self._journal
        assert journal is not None

        def work() -> tuple[list[Problem], _Repaired]:
            with collector_paused():
                records, problems = journal.load()
                repaired = self._repaired(records, resuming, parsed=True)
                # All of it stays: the collector would walk it three times (0.5 s) and find nothing.
                gc.freeze()
            return problems, repaired

        try:
            problems, repaired = await to_thread.run_sync(work)
        except OSError as e:
            raise HistoryError.of(e, "read") from e
        # What was set aside is kept beside the history; rewriting it without means it is told once.
        self._unsaved = bool(problems)
        await self._take(repaired)
        return problems

    async def mend(self) -> None:
        """Bring the records into the shape that a model accepts, on disk too as soon as that takes it.

        Nothing to do where every turn came to its end: each call has its result then.
        """
        if self._held.unended:
            records = self.records
            await self._take(await to_thread.run_sync(lambda: self._repaired(records, None, parsed=False)))

    def _repaired(self, records: list[Record], resuming: str | None, *, parsed: bool) -> _Repaired:
        now = time.time()
        whole = repair(records, epoch=self._epoch, now=now, resuming=resuming, parsed=parsed)
        if whole[: len(records)] != records:
            return _Repaired(_Held(whole), None)
        return _Repaired(_Held(records), whole[len(records) :])

    async def _take(self, repaired: _Repaired) -> None:
        self._held, added = repaired.held, repaired.added
        self._unsaved = self._unsaved or added is None
        try:
            if added or self._unsaved:
                await self.write(*added or ())
        except HistoryError:
            self._held.add(added or ())
            self._unsaved = True

    def stamp(self) -> Stamp:
        """For a record that is made now."""
        return {"epoch": self._epoch, "time": time.time()}

    async def write(self, *records: Record) -> None:
        """Make records durable, in one write. Raises HistoryError, and then nothing has changed.

        Once begun it is finished, cancelled or not: a record is on disk and in memory, or in neither.
        """
        async with self._writing:
            with anyio.CancelScope(shield=True):
                await self._write(records)

    async def _write(self, records: tuple[Record, ...]) -> None:
        if self._journal is not None:
            try:
                if self._unsaved:
                    await to_thread.run_sync(self._journal.replace, [*self.records, *records])
                    self._unsaved = False
                elif records:
                    await to_thread.run_sync(self._journal.append, records)
            except OSError as e:
                raise HistoryError.of(e, "written") from e
        self._held.add(records)
        if any(record.kind in ("compaction", "clear") for record in records):
            self.no_summary_of = None
        self._written(len(records))

    def close(self) -> None:
        """Nothing is written any more."""
        if self._journal is not None:
            self._journal.close()

    def of_turn(self, turn_id: str) -> list[Record]:
        """The turn's records, in order."""
        return list(self._held.turns.get(turn_id, ()))

    def messages(self, model: str, window: int) -> list[dict[str, Any]]:
        """What goes to the model, in a window of so many tokens. Not to be changed."""
        return self._held.conversation.messages(self.records, model, window)

    def context(self, window: int) -> Context:
        """How full a window of so many tokens is, with what is cut for the next request."""
        return self._held.conversation.context(self.records, window)

    def requests(self) -> Sequence[AssistantRecord | CompactionRecord]:
        """The replies and summaries that models gave, in order, with their usage."""
        return self._held.requests

    def call_ids(self) -> Set[str]:
        """The ids of all calls in them."""
        return self._held.call_ids

    def grants(self) -> Mapping[str, bool]:
        """The user's "always" answers: `tool` or `tool:scope` to allowed or rejected; the newest counts."""
        return self._held.grants

    def stamps(self) -> Mapping[str, str]:
        """Digest by path of each file that this session has read or written."""
        return self._held.stamps


def usage_sum(records: list[Record]) -> dict[str, int]:
    """ACP's usage over a turn's records, tokens of sub-agents and of a summary included."""
    input_tokens = output_tokens = 0
    for record in records:
        usage: dict[str, Any] = getattr(record, "usage", {})
        if record.kind in ("assistant", "tool_result", "compaction"):
            input_tokens += usage.get("input", 0)
            output_tokens += usage.get("output", 0)
    return {
        "inputTokens": input_tokens,
        "outputTokens": output_tokens,
        "totalTokens": input_tokens + output_tokens,
    }
