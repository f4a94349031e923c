"""Walks a history from its start and gives each tool start and result to the call that it is of.

Drops what belongs to nothing or is there twice, and makes ids unique. Makes nothing up: what is
missing is `shared.repair`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from shared.blocks import unique_ids, usable_prompt, usable_reply
from shared.whole_turns import whole_turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.records import AssistantRecord, Block, Record, ToolResultRecord, ToolStartRecord

_Key = tuple[str, str]
"""Turn id and call id as recorded: ids come again in later turns, with some servers in the same one."""


@dataclass(slots=True)
class Call:
    """A tool_use that is in the history."""

    call_id: str
    tool: str
    turn_id: str
    reply: int
    """Index of its assistant record among the records kept."""
    started: bool
    """It may have had effect."""
    ended: bool = False


class Binder:
    """Feed it all records in order, once; then the public attributes are what is left of them."""

    def __init__(self) -> None:
        self.kept: list[Record] = []
        self.calls: list[Call] = []
        self.turns: set[str] = set()
        """Ids of the turns of what was kept."""
        self.ended: set[str] = set()
        """Of those, the ones that have an end."""
        self._waiting: dict[_Key, list[Call]] = {}
        self._traces: set[_Key] = set()
        """Starts and results that no call was there for: one that comes later may have had effect."""
        self._renamed: dict[_Key, str] = {}
        self._taken: set[str] = set()
        self._replies: dict[str, AssistantRecord] = {}
        self._records: list[Record] = []

    def feed(self, records: Iterable[Record]) -> None:
        """Walk the records. A line that comes twice in a row counts once; a reply, wherever it comes."""
        self._records = list(records)
        whole = whole_turns(self._records)
        kept = self.kept = self._records[: whole.records]
        self.turns, self._taken, self._replies = set(whole.turns), whole.call_ids, whole.replies
        self.ended, self._traces = set(whole.turns), whole.traces
        last = kept[-1] if kept else None
        for record in self._records[whole.records :]:
            found: Record | None = record
            if record.kind == "tool_start":
                found = self._start(record)
            elif record.kind == "tool_result":
                found = self._result(record)
            elif record.kind == "assistant":
                found = self._reply(record)
            elif record.kind == "user":
                blocks = usable_prompt(record.blocks)
                if blocks is not record.blocks:
                    found = replace(record, blocks=blocks)
            # The time first: it differs for nearly all, and comparing whole records costs ten times more.
            # Compared as repaired, so that a second repair finds no more twins than the first.
            if found is None or (last is not None and last.time == found.time and last == found):
                continue
            kept.append(found)
            last = found
            if found.kind == "turn_end":
                self.ended.add(found.turn_id)
            elif found.kind != "grant" and found.kind != "compaction" and found.kind != "clear":
                self.turns.add(found.turn_id)

    @cached_property
    def _mentioned(self) -> set[str]:
        """Ids that are not given to a call anew: a start or result has them already."""
        return {
            record.call_id
            for record in self._records
            if record.kind == "tool_start" or record.kind == "tool_result"
        }

    def _reply(self, record: AssistantRecord) -> AssistantRecord | None:
        usable = usable_reply(record.blocks)
        if not usable:
            return None
        if usable is not record.blocks:
            record = replace(record, blocks=usable)
        first = self._replies.get(record.message_id)
        if first is None:
            self._replies[record.message_id] = record
        elif first == record:
            return None
        blocks = unique_ids(usable, self._taken, lambda id_: id_ in self._mentioned)
        malformed: dict[str, str] = {}
        for old, new in zip(usable, blocks, strict=True):
            if new["type"] == "tool_use":
                recorded_id = str(old.get("id"))
                self._call(record.turn_id, recorded_id, new)
                if recorded_id in record.malformed:
                    malformed[new["id"]] = record.malformed[recorded_id]
        if blocks is not usable:
            record = replace(record, blocks=blocks, malformed=malformed)
        return record

    def _call(self, turn_id: str, recorded_id: str, block: Block) -> None:
        key = (turn_id, recorded_id)
        call = Call(block["id"], block["name"], turn_id, len(self.kept), started=key in self._traces)
        self.calls.append(call)
        self._waiting.setdefault(key, []).append(call)
        if call.call_id != recorded_id:
            self._renamed[key] = call.call_id

    def _start(self, record: ToolStartRecord) -> ToolStartRecord:
        key = (record.turn_id, record.call_id)
        for call in self._waiting.get(key, ()):
            if not call.started:
                call.started = True
                if call.call_id != record.call_id:
                    record = replace(record, call_id=call.call_id)
                return record
        # A sub-agent's, or its call is lost.
        self._traces.add(key)
        return record

    def _result(self, record: ToolResultRecord) -> ToolResultRecord | None:
        if record.parent_call_id is not None:
            parent = self._renamed.get((record.turn_id, record.parent_call_id))
            return replace(record, parent_call_id=parent) if parent else record
        key = (record.turn_id, record.call_id)
        waiting = self._waiting.get(key)
        if not waiting:
            self._traces.add(key)
            return None
        call = waiting.pop(0)
        call.ended = True
        if call.call_id != record.call_id:
            record = replace(record, call_id=call.call_id)
        return record
