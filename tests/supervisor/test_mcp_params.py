"""`mcpServers` of new, load, resume and fork: what is taken, and -32602 that names what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import INVALID_PARAMS, RequestError
from supervisor.params import NewParams, OpenParams, parse

PLACE = {"cwd": "/", "sessionId": "a"}


@pytest.mark.parametrize("model", [NewParams, OpenParams])
@pytest.mark.parametrize(
    "servers",
    [
        [{"name": "x"}],
        [{"name": "x", "command": 5, "args": [], "env": []}],
        [{"type": "ws", "name": "x", "url": "ws://x"}],
        [{"name": "good", "command": "x"}, {"type": "http", "name": "x"}],
        "x",
        [5],
        {"x": 5},
        5,
    ],
)
def test_a_malformed_server_is_invalid_params(model: type[NewParams | OpenParams], servers: Any) -> None:
    with pytest.raises(RequestError) as raised:
        parse(model, {**PLACE, "mcpServers": servers})
    assert raised.value.code == INVALID_PARAMS
    assert all(field.startswith("mcpServers") for field in raised.value.data if field != "details")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("model", [NewParams, OpenParams])
def test_servers_may_be_absent_or_come_in_each_dialects_shape(model: type[NewParams | OpenParams]) -> None:
    assert parse(model, PLACE).mcpServers == []
    assert parse(model, {**PLACE, "mcpServers": None}).mcpServers == []
    array = parse(model, {**PLACE, "mcpServers": [{"name": "x", "command": "y", "args": [], "env": []}]})
    keyed = parse(model, {**PLACE, "mcpServers": {"x": {"command": "y"}}})
    assert array.mcpServers == keyed.mcpServers


def test_what_a_malformed_server_holds_is_not_told() -> None:
    env = [{"name": "TOKEN", "value": ["s3cret"]}]
    with pytest.raises(RequestError) as raised:
        parse(NewParams, {**PLACE, "mcpServers": [{"name": "x", "command": "y", "args": [], "env": env}]})
    assert "s3cret" not in f"{raised.value} {raised.value.data}"
