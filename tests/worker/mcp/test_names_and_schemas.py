"""What servers name as they like is made fit for the model's API, which refuses whole requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.double.rules import _tools as refused
from tests.worker.mcp.conftest import having, raw
from worker.mcp.bounds import MOST_NOISE, MessageLines, Noise
from worker.mcp.names import full_names, key_of, server_keys
from worker.mcp.schemas import offered
from worker.tools import load_tools, specs

if TYPE_CHECKING:
    from pathlib import Path

    from worker.tools.processes import Processes


def test_server_names_become_keys_that_differ_and_read_one_way() -> None:
    names = ["files", "my__files", "a b", "a_b", "a-b", "", "日本語", "_x_", "x" * 90, "x" * 91, "files"]
    keys = server_keys(names)
    assert keys[:3] == ["files", "my_files", "a_b"]
    assert len(set(keys)) == len(names)
    for key in keys:
        assert "__" not in key
        assert key_of(f"mcp__{key}__tool__x") == key
    assert server_keys(names) == keys


def test_names_that_are_no_servers_have_no_key() -> None:
    assert [key_of(name) for name in ("bash", "mcp__", "mcp__x", "mcp__x__", "other__x__y")] == [None] * 5


def test_tool_names_are_short_and_told_apart_whatever_their_order() -> None:
    own = ["read", "läuft!", "a b", "a_b", "日本", "x" * 300, "x" * 301, "read"]
    names = full_names("srv", own)
    assert set(names.values()) == set(own)
    assert all(len(name) <= 64 and name.isascii() for name in names)
    assert names["mcp__srv__read"] == "read"
    assert names["mcp__srv__a_b"] == "a_b"
    assert full_names("srv", reversed(own)) == names


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "anyOf": [{"required": ["a"]}]},
        {"type": "object", "allOf": []},
        {"type": "string"},
        {},
        {"type": "object", "properties": {"ä": {}}},
        {"type": "object", "properties": {"x" * 65: {}}},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"type": "no such type"}}},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"items": [{}], "type": 5}}},
        {"type": "object", "title": "\ud800"},
        {"type": "object", "default": float("nan")},
        "no object",
        None,
    ],
)
def test_a_schema_that_the_api_would_refuse_is_told_as_text(schema: Any) -> None:
    description, usable = offered("Does it.", schema)
    assert usable == {"type": "object", "properties": {}}
    assert description.startswith("Does it.")
    json.dumps(usable).encode()


def test_a_schema_that_the_api_takes_is_passed_on() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"title": {"type": "string", "title": "kept"}},
        "required": ["title"],
    }
    description, usable = offered("Does it.", schema)
    assert description == "Does it."
    assert usable == {key: value for key, value in schema.items() if key != "$schema"}


def test_lines_are_cut_wherever_the_pieces_end() -> None:
    data = b'noise\n{"a": 1}\r\n  {"b": 2}\n[3]\n\n{"c"'
    for size in range(1, len(data)):
        lines = MessageLines()
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert [line for piece in pieces for line in lines.feed(piece)] == [b'{"a": 1}', b'{"b": 2}']
        assert lines.first_noise == b"noise"
        assert lines.feed(b": 3}\n") == [b'{"c": 3}']


def test_noise_is_forgiven_with_each_answer() -> None:
    lines = MessageLines()
    for _ in range(3):
        lines.count(b"x" * (MOST_NOISE // 2))
        lines.answered()
    lines.count(b"x" * (MOST_NOISE // 2))
    with pytest.raises(Noise):
        lines.count(b"x" * (MOST_NOISE // 2))


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["names", "schemas"])
async def test_odd_tools_of_a_server_are_taken_by_the_api(
    processes: Processes, tmp_path: Path, mode: str
) -> None:
    log = tmp_path / "log"
    async with having(processes, tmp_path, raw(mode, str(log))) as had:
        await had.ready()
        tools: dict[str, Any] = {**load_tools(), **had.servers.tools}
        assert refused(specs(tools)) is None
        json.dumps(specs(tools), ensure_ascii=False).encode()
        assert specs(tools) == specs(dict(reversed(tools.items())))
        if mode == "names":
            assert len(had.servers.tools) == 7
            assert had.servers.tools["mcp__raw__same"].description == "the first"
            (odd,) = [name for name in had.servers.tools if "uft" in name]
            assert not (await had.call(odd)).is_error
            assert "call läuft!" in log.read_text()
        else:
            assert len(had.servers.tools) == 7
            assert '"oneOf"' in had.servers.tools["mcp__raw__union"].description


@pytest.mark.anyio
async def test_blocks_that_are_no_text_leave_markers(processes: Processes, tmp_path: Path) -> None:
    async with having(processes, tmp_path, raw("blocks")) as had:
        assert (await had.call("mcp__raw__do")).text.splitlines() == [
            "see",
            "[image: image/png]",
            "[audio: audio/wav]",
            '<resource uri="a://t">',
            "inline",
            "</resource>",
            "[resource: a://b x/y]",
            "[link: linked a://l]",
            '{"n": 1}',
        ]
