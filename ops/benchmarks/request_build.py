"""Building a request in a conversation of 2,000 messages: from records to the octets that are sent.

Each request of a turn is built anew from what the turn has come to; the first one of a worker, from the
whole history that it has loaded.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ops.benchmarks.agent import ms_since
from ops.benchmarks.measure import Benchmark, Sample
from shared.catalog import load
from tests.shared.histories import MODEL, whole_turn
from worker.conversation import Conversation
from worker.models.base import ModelRequest
from worker.models.requests import arguments, encoded

if TYPE_CHECKING:
    from shared.records import Record

_MESSAGES = 2_000
_OUTPUT = "line of output\n" * 16


def _conversation() -> list[Record]:
    records: list[Record] = []
    # A turn has four messages: what the user says, the calls, their results, the answer.
    for n in range(_MESSAGES // 4):
        records += [
            replace(record, text=_OUTPUT) if record.kind == "tool_result" else record
            for record in whole_turn(f"turn-{n}", *(f"toolu_{n}_{call}" for call in range(3)))
        ]
    return records


_RECORDS = _conversation()


async def _sample() -> Sample:
    entry = load().entry(MODEL)
    records, conversation = list(_RECORDS), Conversation()
    took = []
    for call in range(3):
        began = time.perf_counter()
        messages = conversation.messages(records, MODEL, 10**9)
        made = arguments(ModelRequest(MODEL, "system", messages, [], 1_000), entry)
        sent = encoded(made)
        took.append(ms_since(began))
        assert len(made["messages"]) >= _MESSAGES
        assert len(sent) > _MESSAGES * len(_OUTPUT) / 4
        records += whole_turn("now", f"toolu_now_{call}")[:-1]
    return {"the next": took[-1], "a worker's first": took[0]}


BENCHMARK = Benchmark("build a request from 2,000 messages", "ms", _sample, runs=25, warm_up=3, target=10)
