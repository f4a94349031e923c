"""A session's records in this worker: what the disk has, and nothing else.

Each write is durable when it returns, off the event loop, and only then in memory; a write that fails
leaves both as they were. What repair changed at load is written back with the next success.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, TypedDict

import anyio
from anyio import to_thread

from shared.journal import Journal, Problem
from shared.repair import repair

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from shared.records import Record


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
        self.compaction_failed = False
        """A summary did not get shorter than what it was to replace."""
        self.records: list[Record] = []
        # Looked up several times a tool call, where a walk over 50,000 records takes milliseconds.
        self._turns: dict[str, list[Record]] = {}
        self._grants: dict[str, bool] = {}
        self._stamps: dict[str, str] = {}

    async def load(self, resuming: str | None) -> list[Problem]:
        """Read and repair the history, all but the open calls of turn `resuming`.

        Returns what could not be read and was set aside. Raises HistoryError if nothing can be read.
        """
        assert self._journal is not None
        try:
            records, problems = await to_thread.run_sync(self._journal.load)
        except OSError as e:
            raise HistoryError.of(e, "read") from e
        self._hold(records)
        # What was set aside is kept beside the history; rewriting it without means it is told once.
        self._unsaved = bool(problems)
        await self.mend(resuming)
        if self._unsaved:
            with contextlib.suppress(HistoryError):
                await self.write()
        return problems

    async def mend(self, resuming: str | None = None) -> None:
        """Bring the records into the shape that a model accepts, on disk too as soon as that takes it."""
        loaded = self.records
        repaired = await to_thread.run_sync(
            lambda: repair(loaded, epoch=self._epoch, now=time.time(), resuming=resuming)
        )
        if repaired == loaded:
            return
        added = repaired[len(loaded) :] if repaired[: len(loaded)] == loaded else None
        try:
            if added is not None and not self._unsaved:
                await self.write(*added)
            else:
                self._hold(repaired)
                self._unsaved = True
                await self.write()
        except HistoryError:
            self._hold(repaired)
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
        self._add(records)
        self._written(len(records))

    def _hold(self, records: list[Record]) -> None:
        self.records = []
        self._turns, self._grants, self._stamps = {}, {}, {}
        self._add(records)

    def _add(self, records: Sequence[Record]) -> None:
        self.records.extend(records)
        for record in records:
            if record.kind == "grant":
                self._grants[f"{record.tool}:{record.scope}" if record.scope else record.tool] = record.allow
            elif record.kind != "compaction" and record.kind != "clear":
                self._turns.setdefault(record.turn_id, []).append(record)
                if record.kind == "tool_result":
                    self._stamps.update(record.stamps)

    def of_turn(self, turn_id: str) -> list[Record]:
        """The turn's records, in order."""
        return list(self._turns.get(turn_id, ()))

    def grants(self) -> Mapping[str, bool]:
        """The user's "always" answers: `tool` or `tool:scope` to allowed or rejected; the newest counts."""
        return self._grants

    def stamps(self) -> Mapping[str, str]:
        """Digest by path of each file that this session has read or written."""
        return self._stamps


def usage_sum(records: list[Record]) -> dict[str, int]:
    """ACP's usage over a turn's records, sub-agents' tokens included."""
    input_tokens = output_tokens = 0
    for record in records:
        usage: dict[str, Any] = getattr(record, "usage", {})
        if record.kind in ("assistant", "tool_result"):
            input_tokens += usage.get("input", 0)
            output_tokens += usage.get("output", 0)
    return {
        "inputTokens": input_tokens,
        "outputTokens": output_tokens,
        "totalTokens": input_tokens + output_tokens,
    }
