"""Whatever happened to a history file, it loads, is repaired once and for all, and runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.catalog import ModelEntry
from shared.journal import Journal
from shared.lines import encode
from shared.repair import open_calls, repair, to_messages
from tests.double.rules import problem
from tests.shared.generated import histories
from tests.shared.histories import MODEL, broken_rule, call, end, reply, result, user
from worker.models.base import ModelRequest
from worker.models.requests import arguments

if TYPE_CHECKING:
    from shared.records import Record

ENTRY = ModelEntry(id=MODEL, name="test")
resumed = st.sampled_from([None, "t1", "t2", "t9"])
wounds = st.sampled_from(["drop", "double", "shuffle", "cut", "join", "garbage", "flip", "nul"])


@st.composite
def wrecks(draw: st.DrawFn) -> bytes:
    """A history file to which several things happened, at its end and in its middle."""
    lines = [encode(record) for record in draw(histories)]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(lines) - 1, 0)))
        line = lines[at] if lines else b""
        where = draw(st.integers(0, max(len(line) - 1, 0)))
        match draw(wounds):
            case "drop":
                del lines[at : at + draw(st.integers(1, 3))]
            case "double":
                lines[at:at] = lines[at : at + draw(st.integers(1, 3))]
            case "shuffle":
                lines = draw(st.permutations(lines))
            case "cut":
                lines[at : at + 1] = [line[:where] + b"\n"]
            case "join":
                lines[at : at + 1] = [line[:where]]
            case "garbage":
                lines[at:at] = [draw(st.binary(max_size=30)), b"\n"]
            case "flip":
                lines[at : at + 1] = [line[:where] + draw(st.binary(max_size=1)) + line[where + 1 :]]
            case "nul":
                lines[at:at] = [bytes(draw(st.integers(1, 50)))]
    data = b"".join(lines)
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@given(histories, resumed)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_records_are_repaired_once_and_for_all(history: list[Record], resuming: str | None) -> None:
    whole = repair(history, epoch=1, now=1.0, resuming=resuming)
    assert repair(whole, epoch=2, now=2.0, resuming=resuming) == whole
    # What the model lacks yet, it gets as the worker would give it.
    ran = [result(resuming, block["id"]) for block in open_calls(whole, resuming)] if resuming else []
    for model in (MODEL, "another"):
        assert broken_rule(to_messages([*whole, *ran], model)) is None
        messages = to_messages([*whole, *ran, user("t10")], model)
        assert broken_rule(messages) is None
        request = ModelRequest(model, "system", messages, [], 1000)
        assert problem({**arguments(request, ENTRY), "stream": True}) is None


@given(wrecks(), resumed)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_wreck_of_a_file_loads_and_runs(data: bytes, resuming: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        path.write_bytes(data)
        journal = Journal(path)
        loaded, _ = journal.load()
        whole = repair(loaded, epoch=1, now=1.0, resuming=resuming)
        messages = to_messages(whole, MODEL)
        journal.replace(whole)
        kept = path.read_bytes()

        again, problems = journal.load()
        assert problems == []
        whole_again = repair(again, epoch=2, now=2.0, resuming=resuming)
        assert to_messages(whole_again, MODEL) == messages
        journal.replace(whole_again)
        assert path.read_bytes() == kept

        journal.append([user("t10"), reply("t10", call("new")), result("t10", "new"), end("t10")])
        last = to_messages(repair(journal.load()[0], epoch=3, now=3.0), MODEL)
        journal.close()
        assert broken_rule(last) is None
        assert last[-2]["content"][-1] == call("new")
