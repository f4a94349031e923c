"""No line is longer than clients take, however much there is to say."""

from __future__ import annotations

import json

import pytest

from shared.updates import PIECE, Dialect, chunks, update_line

TAKEN = 10_000_000
"""Octets of a line that every client takes."""


@pytest.mark.parametrize("character", ["a", "\0", "é", "\U0001f600", '"', "\ud800"])
def test_a_text_of_any_length_goes_out_in_pieces_without_a_loss(character: str) -> None:
    text = character * (2 * PIECE + 7)
    lines = [update_line("s", update, "both") for update in chunks("agent_message_chunk", text, "m")]
    assert all(len(line) < TAKEN for line in lines)
    told = [json.loads(line)["params"]["update"] for line in lines]
    assert len(told) == 3
    whole = "".join(update["content"]["text"] for update in told)
    assert len(whole) == len(text)
    assert whole == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert {update["messageId"] for update in told} == {"m"}


def test_an_empty_text_has_no_piece() -> None:
    assert list(chunks("user_message_chunk", "")) == []


@pytest.mark.parametrize("dialect", ["both", "acp"])
@pytest.mark.parametrize("texts", [1, 50, 5_000])
def test_a_call_with_too_much_to_show_shows_both_ends(dialect: Dialect, texts: int) -> None:
    long = "first" + "\n" * (30_000_000 // texts) + "last"
    update = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": long}} for _ in range(texts)],
        "rawOutput": {"output": long, "exitCode": 0},
    }
    line = update_line("s", update, dialect)
    assert len(line) < TAKEN
    told = json.loads(line)["params"]["update"]
    assert (told["toolCallId"], told["rawOutput"]["exitCode"]) == ("c", 0)
    shown = told["content"][-1]["content"]["text"]
    assert shown.startswith("first")
    assert shown.endswith("last")
    assert "not shown" in shown


def test_what_fits_is_not_touched() -> None:
    update = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "rawOutput": {"output": "x" * 4_000_000},
    }
    assert (
        json.loads(update_line("s", update, "both"))["params"]["update"]["raw_output"] == update["rawOutput"]
    )
