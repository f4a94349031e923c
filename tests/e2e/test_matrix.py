"""Workers, zygote and front are killed with a session in each state: what holds in each cell of the table.

One answer to each request, no word of an old epoch after the next one's first, a history that loads twice
to the same bytes, another session's stream whole, nothing left behind. All states are struck at once,
which is harder than one by one, and spares the starts of eighteen agents.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from tests.e2e.client import permission
from tests.e2e.rig import rig, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from pathlib import Path

    from tests.e2e.rig import Rig

pytestmark = pytest.mark.anyio

PAST = "@text remember-this"
NEIGHBOUR = "\n".join(["@deltas 20\n@sleep 0.02"] * 5)
NEIGHBOURS_TEXT = "".join(f"tok{i} " for i in range(20)) * 5


class Cell:
    """A session in one state. `r` is the agent that lives now."""

    def __init__(self, r: Rig, victim: str, state: str, armed: Path) -> None:
        self.r = r
        self.victim = victim
        self.name = f"{victim} × {state}"
        self.armed = armed
        self.place = {"cwd": str(r.work), "mcpServers": []}
        self.session = ""
        self.worker: psutil.Process
        self.asked: list[int] = []
        """Ids of the requests that are open when the blow falls."""

    @property
    def front_lives(self) -> bool:
        """What is open gets its answer."""
        return self.victim != "front"

    async def begin(self) -> None:
        """A session with a past and a live worker."""
        self.session = await self.r.client.new_session(self.r.work)
        await self.r.client.prompt(self.session, PAST)
        self.worker = psutil.Process(self.r.worker_pid(self.session))

    async def prompt(self, text: str) -> int:
        """A prompt that is open when the blow falls."""
        self.asked.append(await self.r.client.begin_prompt(self.session, text))
        return self.asked[-1]

    async def ask(self, method: str) -> int:
        """Another request that is open when the blow falls."""
        self.asked.append(await self.r.client.begin(method, {"sessionId": self.session, **self.place}))
        return self.asked[-1]

    async def stop_reason(self, id_: int) -> str:
        """What a prompt was answered with."""
        return str((await self.r.client.answer_to(id_))["result"]["stopReason"])

    def arm(self, point: str) -> Path:
        """Have the next process that comes by the point meet its fault; the file goes when it does."""
        armed = self.armed / point
        armed.touch()
        return armed

    def permissions(self) -> int:
        """How often the user was asked."""
        asked = [m for m in self.r.client.messages if m.get("method") == "session/request_permission"]
        return sum(m["params"]["sessionId"] == self.session for m in asked)


# Each state: what leads to it, the blow, what must hold in it alone.


async def idle(cell: Cell) -> AsyncGenerator[None]:
    yield
    if cell.victim == "zygote":
        assert _lives(cell.worker)


async def streaming(cell: Cell) -> AsyncGenerator[None]:
    id_ = await cell.prompt("@deltas 10\n@sleep 3\n@text the-end")
    await cell.r.client.wait_text(cell.session, "tok9")
    yield
    if cell.front_lives:
        assert await cell.stop_reason(id_) == "end_turn"
        text = cell.r.client.text(cell.session)
        assert text.rstrip().endswith("the-end")
        assert ("restarted" in text) == (cell.victim == "worker")


async def tool(cell: Cell) -> AsyncGenerator[None]:
    await cell.r.client.call("session/set_mode", {"sessionId": cell.session, "modeId": "bypass_permissions"})
    ran, go_on = cell.r.work / f"ran-{cell.session}", cell.r.work / f"go-on-{cell.session}"
    command = f"echo ran >> {ran.name}; while [ ! -e {go_on.name} ]; do sleep 0.02; done"
    id_ = await cell.prompt(f"@tool bash {json.dumps({'command': command})}\n@text the-end")
    await until(ran.exists)
    yield
    go_on.touch()
    if cell.front_lives:
        assert await cell.stop_reason(id_) == "end_turn"
        status = "failed" if cell.victim == "worker" else "completed"
        assert list(cell.r.statuses(cell.session).values()) == [status]
    assert ran.read_text() == "ran\n"


async def asking(cell: Cell) -> AsyncGenerator[None]:
    done = cell.r.work / f"done-{cell.session}"
    command = json.dumps({"command": f"echo done >> {done.name}"})
    id_ = await cell.prompt(f"@tool bash {command}\n@text the-end")
    request = await cell.r.client.wait_for(lambda m: m.get("method") == "session/request_permission")
    yield
    assert not done.exists()
    if cell.front_lives:
        assert list(cell.r.statuses(cell.session).values()) == ["pending"]
        await cell.r.client.respond(request, permission(request, "allow_once"))
        assert await cell.stop_reason(id_) == "end_turn"
        assert done.read_text() == "done\n"
        assert cell.permissions() == 1


async def loading(cell: Cell) -> AsyncGenerator[None]:
    armed = cell.arm("replay.begin")
    seen = len(cell.r.client.updates(cell.session))
    id_ = await cell.ask("session/load")
    await until(lambda: not armed.exists())
    yield
    if cell.front_lives:
        assert "result" in await cell.r.client.answer_to(id_)
        replayed = cell.r.client.updates(cell.session)[seen:]
        assert [u["content"]["text"] for u in replayed if "content" in u] == [PAST, "remember-this"]


async def closing(cell: Cell) -> AsyncGenerator[None]:
    id_ = await cell.prompt("@deltas 5\n@sleep 60")
    await cell.r.client.wait_text(cell.session, "tok4")
    cell.worker.suspend()  # so that its end in good order takes its time
    close = await cell.ask("session/close")
    assert await cell.stop_reason(id_) == "cancelled"
    yield
    if cell.front_lives:
        assert (await cell.r.client.answer_to(close))["result"] == {}
        assert not _lives(cell.worker)


async def forking(cell: Cell) -> AsyncGenerator[None]:
    id_ = await cell.prompt("@deltas 5\n@sleep 3\n@text the-end")
    await cell.r.client.wait_text(cell.session, "tok4")
    armed = cell.arm("history.write")
    asked = await cell.ask("session/fork")
    await until(lambda: not armed.exists())
    yield
    if cell.front_lives:
        fork = (await cell.r.client.answer_to(asked))["result"]["sessionId"]
        assert await cell.stop_reason(id_) == "end_turn"
        assert (await cell.r.client.prompt(fork, "@text forked"))["result"]["stopReason"] == "end_turn"
        # By what was asked: a neighbour's request, begun anew after the kill, may be the newest.
        asked_of = [json.dumps(request.body["messages"]) for request in cell.r.double.requests]
        of_fork = [text for text in asked_of if "@text forked" in text][-1]
        assert "remember-this" in of_fork
        assert "tok4" not in of_fork
    else:
        listed = (await cell.r.client.call("session/list", {}))["sessions"]
        assert len(listed) == len(STATES), "a half copy is taken for a session"


STATES: dict[str, Callable[[Cell], AsyncGenerator[None]]] = {
    "idle": idle,
    "streaming": streaming,
    "tool": tool,
    "permission": asking,
    "closing": closing,
    "loading": loading,
    "forking": forking,  # last: the disk stalls in its middle only for so long
}
INTERRUPTED = ("streaming", "tool", "permission", "closing", "forking")
"""States in which a front that dies leaves a turn open."""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("victim", ["worker", "zygote", "front"])
async def test_a_kill_costs_no_session_more_than_it_must(tmp_path: Path, victim: str) -> None:
    armed = tmp_path / "armed"
    armed.mkdir()
    faults = (
        f"stop@replay.begin:{armed / 'replay.begin'}",
        f"stall=1@history.write:{armed / 'history.write'}",
    )
    environment = {"IAC_CODE_FAULTS": ",".join(faults)}
    async with rig(tmp_path, answer_permission=None, env=environment) as r:
        cells = [Cell(r, victim, state, armed) for state in STATES]
        other = await r.client.new_session(r.work) if victim != "front" else ""
        for cell in cells:
            await cell.begin()
        async with anyio.create_task_group() as group:
            ended = anyio.Event()
            if other:
                group.start_soon(_stream_whole, r, other, ended)
            struck = [await _led_to(cell) for cell in cells]
            await _strike(r, victim, [cell.worker for cell in cells])
            if victim != "front":
                await _hold(cells, struck)
            ended.set()
        if victim != "front":
            for cell in cells:
                with _in(cell):
                    await _look_back(cell)
    if victim == "front":
        async with rig(tmp_path, answer_permission=None) as r:
            for cell in cells:
                cell.r = r
            await _hold(cells, struck)
            for cell, state in zip(cells, STATES, strict=True):
                with _in(cell):
                    await _found_again(cell, interrupted=state in INTERRUPTED)
                    await _loads_and_goes_on(cell)


@contextmanager
def _in(cell: Cell) -> Iterator[None]:
    """Says in which cell a test failed."""
    try:
        yield
    except BaseException as e:
        e.add_note(f"in the cell {cell.name}")
        raise


async def _led_to(cell: Cell) -> AsyncGenerator[None]:
    with _in(cell):
        steps = STATES[cell.name.split(" × ")[1]](cell)
        await anext(steps)
        return steps


async def _hold(cells: list[Cell], struck: list[AsyncGenerator[None]]) -> None:
    for cell, steps in zip(cells, struck, strict=True):
        with _in(cell), pytest.raises(StopAsyncIteration):
            await anext(steps)


async def _strike(r: Rig, victim: str, workers: list[psutil.Process]) -> None:
    """Kill the victim. A worker that a state holds up goes on, if it is none."""
    front = psutil.Process(r.client.process.pid)
    if victim == "worker":
        for worker in workers:
            worker.kill()
    elif victim == "zygote":
        (zygote,) = [child for child in front.children() if child.cmdline()[:1] == ["iac-code: zygote"]]
        zygote.kill()
        for worker in workers:
            worker.resume()
    else:
        tree = front.children(recursive=True)
        front.kill()
        await r.client.process.wait()
        await until(lambda: not any(map(_lives, tree)))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def _stream_whole(r: Rig, session: str, ended: anyio.Event) -> None:
    """A session that is not struck streams numbered deltas: all arrive, in order, from one worker."""
    turns = 0
    while not ended.is_set():
        answer = await r.client.prompt(session, NEIGHBOUR)
        turns += 1
        assert answer["result"]["stopReason"] == "end_turn"
        assert r.client.text(session) == NEIGHBOURS_TEXT * turns


async def _look_back(cell: Cell) -> None:
    """The front lived: what it has told, and what is on disk."""
    client = cell.r.client
    for id_ in cell.asked:
        assert len(client.answers(id_)) == 1
    if "loading" not in cell.name:
        chunks = client.updates(cell.session, "agent_message_chunk", "agent_thought_chunk")
        spoke = [message for message, _ in groupby(update["messageId"] for update in chunks)]
        assert len(spoke) == len(set(spoke)), "an old epoch spoke after a new one"
    if "closing" not in cell.name:
        await client.call("session/close", {"sessionId": cell.session})
    await _loads_and_goes_on(cell)


async def _found_again(cell: Cell, *, interrupted: bool) -> None:
    """After the front's death what was open is marked, and does not go on by itself."""
    requests = len(cell.r.double.requests)
    await cell.r.client.call("session/load", {"sessionId": cell.session, **cell.place})
    assert ("[This turn was interrupted" in cell.r.client.text(cell.session)) == interrupted
    assert set(cell.r.statuses(cell.session).values()) <= {"failed"}
    assert cell.r.records(cell.session)[-1]["kind"] == "turn_end"
    assert len(cell.r.double.requests) == requests
    await cell.r.client.call("session/close", {"sessionId": cell.session})


async def _loads_and_goes_on(cell: Cell) -> None:
    """From the disk, and then again from the worker that this has started."""
    first, second = await _loaded(cell), await _loaded(cell)
    assert first == second
    assert b"remember-this" in b"".join(first)
    assert (await cell.r.client.prompt(cell.session, "@text next"))["result"]["stopReason"] == "end_turn"
    assert "remember-this" in cell.r.asked()


async def _loaded(cell: Cell) -> list[bytes]:
    """The lines of a replay."""
    seen = len(cell.r.client.lines)
    await cell.r.client.call("session/load", {"sessionId": cell.session, **cell.place})
    ours = [line for line in cell.r.client.lines[seen:] if cell.session.encode() in line]
    return [line for line in ours if b"available_commands_update" not in line]
