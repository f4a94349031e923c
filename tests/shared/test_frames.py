"""What goes over the link comes back the same, and what is no header is told before it is computed with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import to_json

from shared import frames

TO_WORKER = [
    frames.Ping(n=1),
    frames.Cancel(turn_id="t"),
    frames.Configure(options={"mode": "plan"}),
    frames.Credit(octets=7),
    frames.Swept(),
    frames.Shutdown(),
]
TO_FRONT = [frames.Hello(pid=1), frames.Ready(), frames.Ack(n=1, background=2)]
DATA = [
    frames.Open(options={"mode": "plan"}, calls={"c": "pending"}, shown={"m:k": 3}, swept=False),
    frames.Prompt(turn_id="t", blocks=[{"type": "text", "text": "ü"}], capabilities={"fs": {}}),
    frames.Replay(request_id="r", skip=2),
    frames.Reply(key="k", result={"a": [1, None]}),
    frames.Reply(key="k", error={"code": 1, "message": "m"}),
]


@pytest.mark.parametrize(
    ("adapter", "frame"),
    [
        *((frames.TO_WORKER, frame) for frame in TO_WORKER),
        *((frames.TO_FRONT, frame) for frame in TO_FRONT),
        *((frames.DATA_TO_WORKER, frame) for frame in DATA),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_a_frame_comes_back_as_it_was_sent(adapter: Any, frame: Any) -> None:
    assert adapter.validate_json(frame.encode()) == frame


@given(st.binary(max_size=60))
def test_what_is_no_frame_is_told(part: bytes) -> None:
    for adapter in (frames.TO_FRONT, frames.TO_WORKER, frames.DATA_TO_WORKER):
        with pytest.raises(ValidationError):
            adapter.validate_json(part)


@pytest.mark.parametrize(
    "header",
    [
        frames.Header("hello", "4711"),
        frames.Header("update", "call", "pending", 3),
        frames.Header("update"),
        frames.Header("chunk", "m:agent_message_chunk", "120", 4),
        frames.Header("replay", "r", "7"),
        frames.Header("request", "c:permission", "session/request_permission"),
        frames.Header("withdraw", "c:permission"),
        frames.Header("answer", "t", "error"),
        frames.Header("title"),
    ],
    ids=lambda header: header.kind,
)
def test_a_header_comes_back_as_it_was_sent(header: frames.Header) -> None:
    assert frames.Header.decode(header.encode()) == header


@pytest.mark.parametrize(
    "fields",
    [
        None,
        {},
        [],
        "update",
        ["update", "k", "s"],
        ["update", "k", "s", 0, 0],
        [None, "k", "s", 0],
        [["update"], "k", "s", 0],
        ["update", 1, "s", 0],
        ["update", "k", None, 0],
        ["update", "k", "s", "0"],
        ["update", "k", "s", 1.5],
        ["hello", "", "", 0],
        ["hello", "x", "", 0],
        ["chunk", "k", "", 0],
        ["chunk", "k", "-1", 0],
        ["chunk", "k", "1.5", 0],
        ["chunk", "k", "9" * 5000, 0],
        ["replay", "k", "many", 0],
    ],
)
def test_what_is_no_header_is_a_value_error(fields: Any) -> None:
    with pytest.raises(ValueError, match="not a header"):
        frames.Header.decode(to_json(fields))


@given(st.binary(max_size=40))
def test_no_bytes_make_a_header_raise_anything_else(part: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of two kinds: no JSON, no header
        frames.Header.decode(part)
