"""What tests of a session begin with: a turn that runs, what its worker was told, a request to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.frames import Open, Reply

if TYPE_CHECKING:
    from tests.supervisor.shell import Shell


def running(shell: Shell) -> str:
    """The id of a turn that runs in a ready worker."""
    asked = shell.prompt()
    shell.up()
    return asked.turn_id


def opened(shell: Shell) -> Open:
    assert shell.epoch is not None
    frame = shell.epoch.got[0]
    assert isinstance(frame, Open)
    return frame


def ask(shell: Shell, key: str = "c1:permission") -> None:
    shell.frame("request", key, "session/request_permission", {})


def replies(shell: Shell) -> list[Reply]:
    assert shell.epoch is not None
    return [frame for frame in shell.epoch.got if isinstance(frame, Reply)]
