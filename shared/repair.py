"""Makes one whole conversation of a history, whatever happened to it, and the model's messages of that.

Pure functions over the whole history. `repair` is idempotent: what it gives is what the file should
hold. How starts and results find their calls is in `shared.binding`, what a single block must look
like in `shared.blocks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shared.binding import Binder
from shared.blocks import THINKING, usable_prompt, usable_reply
from shared.collector import collector_paused
from shared.errors import INVALID_PARAMS
from shared.lines import carried, plain_record
from shared.plain import plain
from shared.records import (
    AssistantRecord,
    Record,
    ToolResultRecord,
    TurnEndRecord,
    UserRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.binding import Call
    from shared.records import Block

Message = dict[str, Any]

INTERRUPTED: Final = (
    "This call was interrupted: the process that ran it ended before its result was recorded. "
    "It may have had effect, wholly or in part. Look at the state of things before doing it again."
)
NOT_RUN: Final = "This call was not run: the turn was interrupted before it started."
TURN_CANCELLED: Final = (
    "[The user cancelled the request above before it was done. Do not go on with it unasked.]"
)
TURN_FAILED: Final = "[The request above ended with an error before it was done.]"
TURN_INTERRUPTED: Final = "[The request above was interrupted before it was done.]"
"""What the model is told of a turn that did not end normally, so that it does not take it up by itself."""
_SUMMARY: Final = (
    "<summary>\n{}\n</summary>\n\nThe conversation up to here was replaced by this summary of it."
)
_WORKED_ON: Final = "[What the user asked for, word for word, and what is being worked on:]"
_GO_ON: Final = "[Go on.]"
"""After a reply that was paused: no request may end in a reply."""
_START_LOST: Final = "[The beginning of this conversation could not be read.]"


def repair(
    records: Sequence[Record], *, epoch: int, now: float, resuming: str | None = None, parsed: bool = False
) -> list[Record]:
    """The records of a history in which each call has one result, and each turn an end.

    `resuming` is the turn that goes on: it gets no end, and what its last reply asked for and was not
    started is left open, to be run. `epoch` and `now` (seconds since 1970) stamp the records that are
    made up. `parsed`: the records come from JSON, so JSON carries their text. Records that are sound are
    the same objects as before.
    """
    with collector_paused():
        binder = Binder()
        binder.feed(records if parsed else _plain(records))
        whole = _with_results(binder.kept, binder.calls, epoch, now, resuming)
        return _with_ends(whole, binder.turns - binder.ended - {resuming}, epoch, now)


def _plain(records: Sequence[Record]) -> Sequence[Record]:
    return records if carried(records) else list(map(plain_record, records))


def _with_results(
    records: list[Record], calls: list[Call], epoch: int, now: float, resuming: str | None
) -> list[Record]:
    """Make up a result for each call that has none and will get none, right after its reply's others."""
    calls = [call for call in calls if not call.ended]
    if not calls:
        return records
    last_reply = -1
    for index, record in enumerate(records if resuming is not None else ()):
        if record.kind == "assistant" and record.turn_id == resuming:
            last_reply = index
        elif record.kind == "turn_end" and record.turn_id == resuming:
            # It has ended after all: nothing is left to run.
            resuming = None
            last_reply = -1
    made: dict[int, list[Record]] = {}
    for call in calls:
        if call.reply == last_reply and not call.started:
            continue
        text = INTERRUPTED if call.started else NOT_RUN
        result = ToolResultRecord(
            epoch=epoch,
            time=now,
            turn_id=call.turn_id,
            call_id=call.call_id,
            tool=call.tool,
            text=text,
            is_error=True,
            interrupted=True,
            content=[{"type": "content", "content": {"type": "text", "text": text}}],
        )
        made.setdefault(_end_of_results(records, call.reply + 1), []).append(result)
    return _inserted(records, made)


def _end_of_results(records: list[Record], index: int) -> int:
    """Where the conversation goes on after the results that start at `index`."""
    goes_on = ("user", "assistant", "command", "turn_end", "compaction", "clear")
    while index < len(records) and records[index].kind not in goes_on:
        index += 1
    return index


def _with_ends(records: list[Record], left: set[str], epoch: int, now: float) -> list[Record]:
    """Make up an end, after its last record, for each of the turns that are `left` without one."""
    made: dict[int, list[Record]] = {}
    for index in range(len(records) - 1, -1, -1):
        if not left:
            break
        turn_id = getattr(records[index], "turn_id", None)
        if turn_id in left:
            left.remove(turn_id)
            made[index + 1] = [
                TurnEndRecord(
                    epoch=epoch, time=now, turn_id=turn_id, stop_reason="cancelled", interrupted=True
                )
            ]
    return _inserted(records, made)


def _inserted(records: list[Record], made: dict[int, list[Record]]) -> list[Record]:
    whole: list[Record] = []
    done = 0
    for index in sorted(made):
        whole += records[done:index]
        whole += made[index]
        done = index
    return whole + records[done:]


def open_calls(records: Sequence[Record], turn_id: str) -> list[Block]:
    """The tool_use blocks of a turn's last reply that have no result yet, in order."""
    ended: set[str] = set()
    for record in reversed(records):
        if record.kind == "tool_result" and record.parent_call_id is None:
            ended.add(record.call_id)
        elif record.kind == "assistant" and record.turn_id == turn_id:
            return [
                block
                for block in record.blocks
                if block.get("type") == "tool_use" and block["id"] not in ended
            ]
    return []


def to_messages(records: Sequence[Record], model: str) -> list[Message]:
    """The Messages API's `messages` for a history that was repaired, or grew from one that was.

    Same records, same bytes. Thinking of another model than `model` is left out, and so is a call
    that has no result yet, and so is a prompt that did not fit. Empty if there is nothing to send.
    """
    with collector_paused():
        return _messages(records, model)


def more_messages(last: Sequence[Message], records: Sequence[Record], model: str) -> list[Message]:
    """What `to_messages` gives from the message `last` on for a history that grew by `records`.

    All calls before them have their results, and none of them is a compaction or clear.
    """
    with collector_paused():
        refused = {
            record.turn_id for record in records if record.kind == "turn_end" and prompt_refused(record)
        }
        messages = [{**message, "content": list(message["content"])} for message in last]
        _extend(messages, records, _results(records), refused, model)
        return messages


def _messages(records: Sequence[Record], model: str) -> list[Message]:
    first, summary, prompt, results, refused = _window(records)
    messages: list[Message] = []
    if summary is not None:
        _add(messages, "user", [{"type": "text", "text": _SUMMARY.format(plain(summary))}])
    if prompt is not None and (asked := usable_prompt(prompt.blocks)):
        _add(messages, "user", [{"type": "text", "text": _WORKED_ON}, *asked])
    _extend(messages, records[first:], results, refused, model)
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": _START_LOST}]})
    return messages


def _extend(
    messages: list[Message],
    records: Sequence[Record],
    results: dict[str, ToolResultRecord],
    refused: set[str],
    model: str,
) -> None:
    # Those of commands are no requests to the model, however they ended.
    commands = {record.turn_id for record in records if record.kind == "command"}
    for record in records:
        if record.kind == "user" and record.turn_id not in refused:
            blocks = usable_prompt(record.blocks) or [{"type": "text", "text": "(an empty message)"}]
            _add(messages, "user", blocks)
        elif record.kind == "assistant":
            blocks = []
            answers = []
            for block in usable_reply(record.blocks):
                kind = block["type"]
                if kind == "tool_use":
                    if (answer := results.get(block["id"])) is None:
                        continue
                    answers.append(_result_block(answer))
                elif kind in THINKING and record.model != model:
                    continue
                blocks.append(block)
            # The API takes no reply that ends in thinking.
            while blocks and blocks[-1]["type"] in THINKING:
                blocks.pop()
            _add(messages, "assistant", blocks)
            _add(messages, "user", answers)
            if record.stop_reason == "pause_turn" and blocks and not answers:
                _add(messages, "user", [{"type": "text", "text": _GO_ON}])
        elif (
            record.kind == "turn_end"
            and record.turn_id not in commands
            and (note := _note(record)) is not None
            and messages
        ):
            _add(messages, "user", [{"type": "text", "text": note}])


def prompt_refused(end: TurnEndRecord) -> bool:
    """The turn's prompt was too long for the model. Sent again it would make every later turn fail too."""
    return end.error is not None and end.error.get("code") == INVALID_PARAMS


def _note(end: TurnEndRecord) -> str | None:
    if prompt_refused(end):
        return None
    if end.error is not None:
        return TURN_FAILED
    if end.stop_reason == "cancelled":
        return TURN_INTERRUPTED if end.interrupted else TURN_CANCELLED
    return None


class _Window(NamedTuple):
    """What goes to the model: the records from index `first` on, after a `summary` and a `prompt`.

    With their results by call id, and the turns whose prompt was refused.
    """

    first: int
    summary: str | None
    prompt: UserRecord | None
    results: dict[str, ToolResultRecord]
    refused: set[str]


def _window(records: Sequence[Record]) -> _Window:
    # One walk for all, from the end: most of a walk's time goes to fetching the records from memory.
    first, summary, prompt = 0, None, None
    results: dict[str, ToolResultRecord] = {}
    refused: set[str] = set()
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if record.kind == "tool_result":
            # A sub-agent's are its own business.
            if record.parent_call_id is None:
                results.setdefault(record.call_id, record)
        elif record.kind == "turn_end":
            if prompt_refused(record):
                refused.add(record.turn_id)
        elif record.kind == "clear":
            first = index + 1
            break
        elif record.kind == "compaction":
            first, summary = _unsplit(records, index), record.summary
            results = _results(records[first:])
            refused = {r.turn_id for r in records[first:] if r.kind == "turn_end" and prompt_refused(r)}
            if record.turn_id not in refused:
                prompt = _prompt(records[:first], record.turn_id)
            break
    return _Window(first, summary, prompt, results, refused)


def _prompt(records: Sequence[Record], turn_id: str) -> UserRecord | None:
    """A turn's prompt, if it is among these records and no clear came after it."""
    for record in reversed(records if turn_id else ()):
        if record.kind == "clear":
            break
        if record.kind == "user" and record.turn_id == turn_id:
            return record
    return None


def _unsplit(records: Sequence[Record], compaction: int) -> int:
    """Where to begin after a compaction: before it, if results of calls before it come after it."""
    after = _results(records[compaction:])
    for record in records[compaction:]:
        if record.kind == "assistant":
            for call_id in _call_ids(record):
                after.pop(call_id, None)
    begin = compaction + 1
    for index in range(compaction - 1, -1, -1):
        record = records[index]
        if not after or record.kind == "clear":
            break
        if record.kind == "assistant" and not after.keys().isdisjoint(_call_ids(record)):
            begin = index
    return begin


def _call_ids(record: AssistantRecord) -> list[str]:
    return [block["id"] for block in record.blocks if block.get("type") == "tool_use"]


def _results(records: Iterable[Record]) -> dict[str, ToolResultRecord]:
    """By call id; a sub-agent's are its own business."""
    return {
        record.call_id: record
        for record in records
        if record.kind == "tool_result" and record.parent_call_id is None
    }


def _result_block(record: ToolResultRecord) -> Block:
    text = "(no output)" if not record.text or record.text.isspace() else plain(record.text)
    block: Block = {"type": "tool_result", "tool_use_id": record.call_id, "content": text}
    if record.is_error:
        block["is_error"] = True
    return block


def _add(messages: list[Message], role: str, blocks: list[Block]) -> None:
    """Put blocks into the last message if that is of this role, else into a new one."""
    if blocks and messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    elif blocks:
        messages.append({"role": role, "content": list(blocks)})
