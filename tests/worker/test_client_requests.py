"""A client that offers a method and never answers it costs one wait, not one a call."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from shared.frames import Reply
from worker.client import ClientError
from worker.requests import MUTED_FOR, ClientRequests

pytestmark = pytest.mark.anyio


class Asked:
    """Keeps what is asked, and the keys that are withdrawn."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.withdrawn: list[str] = []

    def request(self, key: str, method: str, params: dict[str, Any]) -> None:
        self.requests.append(key)

    def withdraw(self, key: str) -> None:
        self.withdrawn.append(key)


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def client(asked: Asked) -> ClientRequests:
    made = ClientRequests(asked)  # type: ignore[arg-type]
    made.capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    return made


async def test_a_method_without_an_answer_is_not_offered_for_a_while_and_that_is_told_once(
    client: ClientRequests, asked: Asked, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(TimeoutError):
        await client.request("k", "fs/read_text_file", {}, 0.01)
    assert asked.withdrawn == ["k"]
    assert not client.reads_files
    assert client.writes_files
    assert client.runs_terminals
    assert len(caplog.records) == 1
    later = anyio.current_time() + MUTED_FOR + 1
    monkeypatch.setattr("anyio.current_time", lambda: later)
    assert client.reads_files


async def test_a_command_that_takes_long_says_nothing_of_the_client(client: ClientRequests) -> None:
    with pytest.raises(TimeoutError):
        await client.request("k", "terminal/wait_for_exit", {}, 0.01)
    assert client.runs_terminals
    with pytest.raises(TimeoutError):
        await client.request("k", "terminal/create", {}, 0.01)
    assert not client.runs_terminals


async def test_an_error_is_an_answer(client: ClientRequests) -> None:
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            with pytest.raises(ClientError):
                await client.request("k", "fs/read_text_file", {}, 5)

        group.start_soon(ask)
        await anyio.lowlevel.checkpoint()
        client.deliver(Reply(key="k", result=None, error={"code": 1, "message": "no"}))
    assert client.reads_files
