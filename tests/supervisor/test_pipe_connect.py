"""Finding the shared agent, also where it hangs."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from supervisor import pipe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """An agent that accepts nobody, and whose queue one connection fills."""
    path = tmp_path / "shared.sock"
    monkeypatch.setattr(pipe, "socket_path", lambda: path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        agent.bind(str(path))
        agent.listen(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as queued:
            queued.connect(str(path))
            yield agent


def test_an_agent_that_takes_no_connection_holds_up_nobody(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "QUEUED_WITHIN", 0.1)
    assert pipe.connect() is None


def test_one_that_is_only_busy_is_waited_for(listening: socket.socket) -> None:
    taken: list[socket.socket] = []
    busy = threading.Timer(0.1, lambda: taken.append(listening.accept()[0]))
    busy.start()
    connected = pipe.connect()
    busy.join()
    assert connected is not None
    for one in (connected, *taken):
        one.close()


def test_where_none_listens_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "socket_path", lambda: tmp_path / "nobody.sock")
    assert pipe.connect() is None
