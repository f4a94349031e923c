"""The whole front with workers that are tasks: what it makes of them, good and bad, in milliseconds."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from shared import catalog, jsonrpc, settings
from shared.store import Store
from supervisor.connection import Connection
from supervisor.front import Front
from supervisor.link import FrontLink
from supervisor.liveness import Liveness
from supervisor.methods import Methods
from supervisor.provision.inprocess import InProcessProvisioner
from supervisor.registry import Registry
from supervisor.restarts import BootBreaker
from supervisor.runtime import RuntimeFolder
from supervisor.services import Services
from supervisor.stdio import OutputBuffer
from supervisor.tasks import FrontTasks
from tests.supervisor.scripted import ScriptedWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from shared.frames import WorkerSpec

    Script = Callable[[ScriptedWorker], Awaitable[None]]

pytestmark = pytest.mark.anyio


class Editor:
    """A client of a front in this process: what it was sent, by line."""

    def __init__(self, front: Front, connection: Connection, cwd: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self._front = front
        self._connection = connection
        self._cwd = cwd
        self._came = anyio.Event()
        self._id = 0

    def put(self, line: bytes, written: Callable[[], None] | None = None) -> None:
        """See OutputBuffer."""
        self.lines.append(json.loads(line))
        if written is not None:
            written()
        self._came.set()

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer."""
        self._id += 1
        self._front.take(self._connection, jsonrpc.Request(self._id, method, params))
        with anyio.fail_after(20):
            while not (found := self.answers(self._id)):
                self._came = anyio.Event()
                await self._came.wait()
        return found[0]

    def answers(self, id_: int) -> list[dict[str, Any]]:
        """All answers under an id."""
        return [line for line in self.lines if line.get("id") == id_ and "method" not in line]

    async def prompt(self, session_id: str) -> dict[str, Any]:
        """Prompt and wait for the answer."""
        return await self.request(
            "session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hello"}]
        )

    async def new_session(self) -> str:
        """A new session's id."""
        answer = await self.request("session/new", cwd=self._cwd, mcpServers=[])
        return str(answer["result"]["sessionId"])

    def text(self) -> str:
        """What the assistant said, as it came."""
        updates = [line["params"]["update"] for line in self.lines if line.get("method") == "session/update"]
        said = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
        return "".join(update["content"]["text"] for update in said)


@asynccontextmanager
async def editor(tmp_path: Path, *scripts: Script) -> AsyncIterator[Editor]:
    """An editor at a front whose workers follow the scripts, one an epoch, the last again and again."""
    started = iter([*scripts[:-1]])

    async def serve(spec: WorkerSpec) -> None:
        script = next(started, scripts[-1])
        async with ScriptedWorker(spec) as worker:
            await script(worker)

    chosen = settings.load(tmp_path)
    async with anyio.create_task_group() as group:
        tasks = FrontTasks(group)
        runtime = RuntimeFolder(tmp_path)
        services = Services(
            settings=chosen,
            store=Store(tmp_path / "sessions"),
            link=FrontLink(runtime.path),
            provisioner=InProcessProvisioner(serve, group),
            runtime=runtime,
            liveness=Liveness(chosen),
            breaker=BootBreaker(),
            tasks=tasks,
            dialect="acp",
            log_path=lambda: tmp_path / "log",
        )
        tasks.keep(services.link.receive_control)
        tasks.keep(services.link.receive_data)
        registry = Registry(services, lambda: "offline")
        front = Front(registry, Methods(registry, catalog.load([], "offline"), bare=True), tasks)
        connection = Connection(OutputBuffer(-1))
        made = Editor(front, connection, str(tmp_path))
        connection.output.put = made.put  # type: ignore[method-assign]
        yield made
        for session_id in list(registry.live):
            await made.request("session/close", sessionId=session_id)
        await services.provisioner.aclose()
        group.cancel_scope.cancel()
    services.link.close()
    runtime.close()


async def good(worker: ScriptedWorker) -> None:
    """Answers every prompt."""
    worker.boot()
    async with anyio.create_task_group() as group:

        async def turns() -> None:
            while True:
                turn = await worker.prompted()
                worker.say(f"epoch {worker.spec.epoch}")
                worker.answer(turn.turn_id)

        group.start_soon(turns)
        await worker.until_told_to_end()
        group.cancel_scope.cancel()


async def dies_before_hello(worker: ScriptedWorker) -> None:
    raise RuntimeError("no memory for it")


async def dies_after_ready(worker: ScriptedWorker) -> None:
    worker.boot()
    await worker.prompted()


async def dies_in_its_answer(worker: ScriptedWorker) -> None:
    worker.boot()
    await worker.prompted()
    worker.say("half ", message="m0")
    await anyio.lowlevel.checkpoint()
    raise RuntimeError("in the middle")


async def answers_twice(worker: ScriptedWorker) -> None:
    worker.boot()
    turn = await worker.prompted()
    worker.answer(turn.turn_id)
    worker.answer(turn.turn_id)
    await worker.until_told_to_end()


NO_HEADER = b'["no such kind",1,2,3,4,5]'


async def talks_nonsense(worker: ScriptedWorker) -> None:
    worker.data.send([NO_HEADER, b""])
    worker.control.send([b"{}"])
    worker.data.send([b"one part too few"])
    await good(worker)


async def test_a_prompt_is_answered_by_a_worker_in_process(tmp_path: Path) -> None:
    async with editor(tmp_path, good) as it:
        answer = await it.prompt(await it.new_session())
        assert answer["result"]["stopReason"] == "end_turn"
        assert it.text() == "epoch 1"


@pytest.mark.parametrize("bad", [dies_after_ready, dies_in_its_answer])
async def test_the_next_epoch_answers_once_for_one_that_died(tmp_path: Path, bad: Script) -> None:
    async with editor(tmp_path, bad, good) as it:
        answer = await it.prompt(await it.new_session())
        assert answer["result"]["stopReason"] == "end_turn"
        assert it.answers(answer["id"]) == [answer]
        assert "epoch 2" in it.text()


async def test_a_worker_that_never_boots_is_told_and_not_tried_for_ever(tmp_path: Path) -> None:
    async with editor(tmp_path, dies_before_hello) as it:
        session_id = await it.new_session()
        answer = await it.prompt(session_id)
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"]["details"]


async def test_a_session_that_failed_to_boot_works_when_workers_do(tmp_path: Path) -> None:
    async with editor(tmp_path, dies_before_hello, good) as it:
        session_id = await it.new_session()
        assert "error" in await it.prompt(session_id)
        assert (await it.prompt(session_id))["result"]["stopReason"] == "end_turn"


async def test_a_second_answer_of_a_worker_is_not_sent(tmp_path: Path) -> None:
    async with editor(tmp_path, answers_twice) as it:
        session_id = await it.new_session()
        answer = await it.prompt(session_id)
        await it.request("session/list")
        assert it.answers(answer["id"]) == [answer]


async def test_nonsense_on_the_link_costs_nobody_anything(tmp_path: Path) -> None:
    async with editor(tmp_path, talks_nonsense) as it:
        answer = await it.prompt(await it.new_session())
        assert answer["result"]["stopReason"] == "end_turn"


async def test_a_dead_epoch_that_still_talks_is_not_heard(tmp_path: Path) -> None:
    old: list[ScriptedWorker] = []

    async def dies_but_talks_on(worker: ScriptedWorker) -> None:
        worker.boot()
        await worker.prompted()
        old.append(ScriptedWorker(worker.spec))

    async def next_one(worker: ScriptedWorker) -> None:
        worker.boot()
        turn = await worker.prompted()
        for _ in range(50):
            old[0].say("the dead speak")
        async with old[0]:
            worker.say("epoch 2")
            worker.answer(turn.turn_id)
            await worker.until_told_to_end()

    async with editor(tmp_path, dies_but_talks_on, next_one) as it:
        await it.prompt(await it.new_session())
        await it.request("session/list")
        assert "the dead speak" not in it.text()
        assert "epoch 2" in it.text()
