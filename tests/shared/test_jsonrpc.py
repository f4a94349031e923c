"""Any bytes are a message, an error answer or nothing: never an exception, never another line's damage."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from shared import jsonrpc
from shared.jsonrpc import LineSplitter, Malformed, Notification, Request, Response, parse

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
FUZZED_LINES = 100_000

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)
members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2.0, None]),
        "id": json_values,
        "method": st.sampled_from(["session/new", "", "x", 1, None, ["a"]]),
        "params": json_values,
        "result": json_values,
        "error": json_values,
    },
)


def check(line: bytes) -> None:
    """What must hold for any line at all."""
    message = parse(line)
    match message:
        case None:
            assert not line.strip()
        case Malformed():
            answer = json.loads(jsonrpc.error_line(message.id, message.error.to_json()))
            assert answer["error"]["code"] in (-32700, -32600)
            assert answer["error"]["data"]["details"]
            assert len(str(answer)) < 1000 + len(str(message.id))
        case Request():
            answered = json.loads(jsonrpc.result_line(message.id, b"{}"))["id"]
            assert answered == message.id
            assert type(answered) is type(message.id)
            to_json(message.params)
        case Notification() | Response():
            # What is read can be sent on to a worker, and read there.
            from_json(to_json(message.params if isinstance(message, Notification) else message.result))


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xff\xfe{\x00}\x00")
@example(b"\xef\xbb\xbf" + PING)
@example(b"\0" * 10)
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b"[" * 100_000 + b"\\u")
@example(b'{"jsonrpc":"2.0","id":1e400,"method":"x"}')
@example(b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x"}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"x","params":NaN}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"x","params":-Infinity,"y":"\\ud800"}')
@example(b'"\\ud800"')
def test_no_bytes_make_it_raise(line: bytes) -> None:
    check(line)


@given(members, st.booleans())
def test_no_object_makes_it_raise(value: dict[str, Any], ascii_only: bool) -> None:
    check(json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))


@given(st.integers(150, 1200), st.sampled_from(["[]", "{}"]), st.booleans())
@example(300, "[]", True)
@example(202, "{}", True)
def test_what_is_nested_too_deeply_is_refused_whatever_else_is_in_the_line(
    depth: int, brackets: str, escaped: bool
) -> None:
    opening = b"[" if brackets == "[]" else b'{"a":'
    nested = opening * depth + b"1" + brackets[1].encode() * depth
    check(b'{"jsonrpc":"2.0","id":"1","result":%b,"x":"%b"}' % (nested, b"\\u0041" if escaped else b"A"))


def test_a_hundred_thousand_broken_lines_end_nothing() -> None:
    chance = random.Random(20_26)
    whole = [
        PING,
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}',
        b'{"jsonrpc":"2.0","id":"a","result":{"outcome":{"outcome":"selected","optionId":"x"}}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"\\ud83d\\ude00 \\ud800"}}',
        '{"jsonrpc":"2.0","id":2,"method":"ü","params":[1,2.5,-3e2,true,null,"é\\u00e9"]}'.encode(),
    ]
    splitter = LineSplitter(limit=400)
    answered = 0
    for _ in range(FUZZED_LINES):
        line = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(line) + 1)
            what = chance.randrange(4)
            if what == 0:
                line[at : at + 1] = bytes([chance.randrange(256)])
            elif what == 1:
                del line[at : at + chance.randrange(20)]
            elif what == 2:
                line[at:at] = chance.choice(
                    [b"[", b"{", b'"', b"\\u", b"\xed\xa0\x80", b"\0", b"9" * 30, b"\r"]
                )
            else:
                line = line[:at] + line[at // 2 :]
        for found in splitter.feed(bytes(line) + b"\n" + PING + b"\n"):
            message = found if isinstance(found, Malformed) else parse(found)
            answered += message == Request(1, "ping", None)
            if isinstance(message, Malformed):
                jsonrpc.error_line(message.id, message.error.to_json())
    # The next valid request is answered, after each of them.
    assert answered >= FUZZED_LINES


@pytest.mark.parametrize("line", [b"", b" ", b"\r", b"\t \r", b"\x0c"])
def test_a_blank_line_is_nothing(line: bytes) -> None:
    assert parse(line) is None


@pytest.mark.parametrize("line", [b"x", b"{", b'{"a":1}}', b"\xff", b"\0", b"{}{}", b"'a'", PING + b"\0"])
def test_what_is_not_json_is_a_parse_error_without_an_id(line: bytes) -> None:
    message = parse(line)
    assert isinstance(message, Malformed)
    assert (message.id, message.error.code) == (None, -32700)


@pytest.mark.parametrize(
    "line", [b"[]", b"[" + PING + b"]", b"null", b"1", b'"x"', b"true", b"{}", b'{"a":1}']
)
def test_what_is_no_request_is_invalid(line: bytes) -> None:
    message = parse(line)
    assert isinstance(message, Malformed)
    assert (message.id, message.error.code) == (None, -32600)


@pytest.mark.parametrize(
    ("members", "id_"),
    [
        ('"id":7,"method":"x"', 7),
        ('"jsonrpc":"1.0","id":7,"method":"x"', 7),
        ('"jsonrpc":2.0,"id":"a","method":"x"', "a"),
        ('"jsonrpc":"2.0","id":7', 7),
        ('"jsonrpc":"2.0","id":7,"method":7', 7),
        ('"jsonrpc":"2.0","id":null,"method":"x"', None),
        ('"jsonrpc":"2.0","id":true,"method":"x"', None),
        ('"jsonrpc":"2.0","id":[1],"method":"x"', None),
        ('"jsonrpc":"2.0","id":{},"method":"x"', None),
        ('"jsonrpc":"2.0","id":1e999,"method":"x"', None),
        ('"jsonrpc":"2.0","method":null', None),
    ],
)
def test_a_call_that_breaks_the_rules_is_refused_under_its_id_where_that_is_one(
    members: str, id_: int | str | None
) -> None:
    message = parse(b"{%b}" % members.encode())
    assert isinstance(message, Malformed)
    assert (message.id, message.error.code) == (id_, -32600)


@pytest.mark.parametrize("id_", [0, -1, 2**31, 10**40, 1.5, "", "a", "ü\n", "\U0001f600"])
def test_an_id_is_kept_as_it_came(id_: str | float) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": id_, "method": "m", "params": {"a": [1]}}).encode()
    assert parse(line) == Request(id_, "m", {"a": [1]})
    assert json.loads(jsonrpc.result_line(id_, b"{}")) == {"jsonrpc": "2.0", "id": id_, "result": {}}


def test_a_request_without_an_id_is_a_notification() -> None:
    assert parse(b'{"jsonrpc":"2.0","method":"m"}') == Notification("m", None)


def test_unknown_members_and_carriage_returns_change_nothing() -> None:
    line = b'{"jsonrpc":"2.0","x":[],"id":1,"method":"m","params":[],"_meta":{}}\r'
    assert parse(line) == Request(1, "m", [])


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ('"id":1,"result":null', Response(1, None, None)),
        ('"id":1,"result":{"a":1}', Response(1, {"a": 1}, None)),
        ('"id":null,"error":{"code":1,"message":"m"}', Response(None, None, {"code": 1, "message": "m"})),
        ('"error":{"code":1,"message":"m"}', Response(None, None, {"code": 1, "message": "m"})),
        ('"id":1,"error":"broken"', Response(1, None, {"code": 0, "message": "broken"})),
        ('"id":1,"error":null', Response(1, None, None)),
        ('"id":[1],"result":1', Response([1], 1, None)),
    ],
)
def test_an_answer_is_taken_in_whatever_shape_it_comes(members: str, expected: Response) -> None:
    assert parse(b'{"jsonrpc":"2.0",%b}' % members.encode()) == expected
    assert parse(b"{%b}" % members.encode()) == expected


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("\\ud800", "\ufffd"),
        ("a\\udfffb", "a\ufffdb"),
        ("\\ud83d\\ude00", "\U0001f600"),
        ("\\ud83d\\ud83d\\ude00", "\ufffd\U0001f600"),
        ("\\u00e9", "é"),
    ],
)
def test_half_a_character_that_javascript_wrote_does_not_cost_the_request(written: str, read: str) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"%b":["%b"]}}' % ((written.encode(),) * 2)
    assert parse(line) == Request(1, "m", {read: [read]})


# Encoding


@given(json_values)
def test_what_is_encoded_is_one_line_of_json_in_utf_8(value: Any) -> None:
    encoded = jsonrpc.encode(value)
    assert b"\n" not in encoded
    from_json(encoded, allow_inf_nan=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("\ud800", '"\ufffd"'),
        ({"\ud800": ["a\udfff"]}, '{"\ufffd":["a\ufffd"]}'),
        (("\ud83d" + "\ude00",), '["\U0001f600"]'),
        ([math.nan, math.inf, "\ud800"], '[null,null,"\ufffd"]'),
        (math.nan, "null"),
        ("é\u2028\0", '"é\u2028\\u0000"'),
    ],
)
def test_what_utf_8_or_json_cannot_carry_is_replaced(value: Any, expected: str) -> None:
    assert jsonrpc.encode(value).decode() == expected


def test_lines_have_the_members_that_json_rpc_wants_and_no_other() -> None:
    error = {"code": -32600, "message": "Invalid request"}
    assert json.loads(jsonrpc.error_line(None, error)) == {"jsonrpc": "2.0", "id": None, "error": error}
    assert json.loads(jsonrpc.request_line("1.1", "m", b'{"a":1}')) == {
        "jsonrpc": "2.0",
        "id": "1.1",
        "method": "m",
        "params": {"a": 1},
    }
    assert json.loads(jsonrpc.notification_line("m", {})) == {"jsonrpc": "2.0", "method": "m", "params": {}}
