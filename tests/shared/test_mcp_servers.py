"""MCP servers as clients name them: both dialects' shapes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from shared.mcp_servers import McpServer, McpServerList, RemoteServer, StdioServer

LIST: TypeAdapter[list[McpServer]] = TypeAdapter(McpServerList)


def test_the_standards_array_and_the_references_object_say_the_same() -> None:
    standard = [
        {"name": "fs", "command": "/bin/fs", "args": ["a"], "env": [{"name": "A", "value": "b"}]},
        {"type": "http", "name": "web", "url": "https://x/mcp", "headers": [{"name": "H", "value": "v"}]},
        {"type": "sse", "name": "old", "url": "http://x:80/sse", "headers": []},
    ]
    reference = {
        "fs": {"command": "/bin/fs", "args": ["a"], "env": {"A": "b"}},
        "web": {"type": "http", "url": "https://x/mcp", "headers": {"H": "v"}},
        "old": {"type": "sse", "url": "http://x:80/sse"},
    }
    found = LIST.validate_python(standard)
    assert found == LIST.validate_python(reference)
    assert isinstance(found[0], StdioServer)
    assert found[0].env == {"A": "b"}
    assert isinstance(found[1], RemoteServer)
    assert found[1].headers == {"H": "v"}
    assert LIST.validate_json(LIST.dump_json(found)) == found


@pytest.mark.parametrize("none", [None, [], {}])
def test_no_servers_may_be_said_in_each_way(none: Any) -> None:
    assert LIST.validate_python(none) == []


def test_unknown_members_and_nulls_are_passed_over() -> None:
    (server,) = LIST.validate_python(
        [{"name": "fs", "command": "x", "args": None, "env": None, "_meta": {}, "new": 1}]
    )
    assert server == StdioServer(name="fs", command="x")


@pytest.mark.parametrize(
    "server",
    [
        {"name": "x"},
        {"command": "x"},
        {"name": "", "command": "x"},
        {"name": "x", "command": ""},
        {"name": "x", "command": 5},
        {"name": "x", "command": "a\0b"},
        {"name": "x", "command": "a", "args": "b"},
        {"name": "x", "command": "a", "args": [1]},
        {"name": "x", "command": "a", "args": ["\0"]},
        {"name": "x", "command": "a", "env": "b"},
        {"name": "x", "command": "a", "env": [{"name": "A"}]},
        {"name": "x", "command": "a", "env": [{"name": "A", "value": 1}]},
        {"name": "x", "command": "a", "env": [{"name": "A=B", "value": "c"}]},
        {"name": "x", "command": "a", "env": {"": "c"}},
        {"type": "ws", "name": "x", "url": "ws://x"},
        {"type": 5, "name": "x", "command": "a"},
        {"type": "http", "name": "x"},
        {"type": "http", "name": "x", "url": "file:///etc/passwd"},
        {"type": "http", "name": "x", "url": "http://"},
        {"type": "http", "name": "x", "url": "http://x:99999/"},
        {"type": "http", "name": "x", "url": "http://x/\r\nHost: y"},
        {"type": "http", "name": "x", "url": "http://x", "headers": [{"name": "A B", "value": "c"}]},
        {"type": "http", "name": "x", "url": "http://x", "headers": [{"name": "A", "value": "b\r\nC: d"}]},
        "x",
        5,
        None,
        [],
    ],
)
def test_a_malformed_server_is_refused(server: Any) -> None:
    with pytest.raises(ValidationError):
        LIST.validate_python([server])


def test_secrets_are_not_in_what_is_printed_of_a_server() -> None:
    stdio = StdioServer(name="a", command="b", env={"T": "s3cret"})
    remote = RemoteServer(name="a", url="http://x/?k=s3cret", headers={"Authorization": "s3cret"})
    assert "s3cret" not in repr((stdio, remote))
