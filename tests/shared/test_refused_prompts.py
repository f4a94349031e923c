"""A prompt that did not fit into the model's window is in the history, but not in what the model is sent."""

from __future__ import annotations

from typing import Any

from shared.errors import INTERNAL_ERROR, INVALID_PARAMS, RequestError
from shared.records import AssistantRecord, Record, TurnEndRecord, UserRecord
from shared.repair import to_messages


def turn(turn_id: str, said: str, reply: str | None, error: int | None = None) -> list[Record]:
    """A turn's records."""
    stamp: dict[str, Any] = {"epoch": 1, "time": float(len(turn_id)), "turn_id": turn_id}
    records: list[Record] = [UserRecord(**stamp, blocks=[{"type": "text", "text": said}])]
    if reply is not None:
        blocks = [{"type": "text", "text": reply}]
        records.append(
            AssistantRecord(**stamp, message_id=turn_id, model="m", blocks=blocks, stop_reason="end_turn")
        )
    failed = RequestError(error, "x").to_json() if error is not None else None
    records.append(TurnEndRecord(**stamp, stop_reason="end_turn", usage={}, error=failed))
    return records


def test_a_refused_prompt_is_left_out_and_one_that_failed_is_not() -> None:
    records = [
        *turn("a", "first", "answer"),
        *turn("bb", "much too long", None, INVALID_PARAMS),
        *turn("ccc", "the network was down", None, INTERNAL_ERROR),
        *turn("dddd", "last", None),
    ]
    sent = str(to_messages(records, model="m"))
    assert "too long" not in sent
    assert "the network was down" in sent
    assert "ended with an error" in sent
    assert to_messages(records[:5], model="m") == to_messages(records[:3], model="m")
