"""Workers that are tasks of the test: each speaks the link by a script, some of them badly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

import zmq

from shared.channel import connect_dealer
from shared.frames import DATA_TO_WORKER, TO_WORKER, Ack, Header, Hello, Ping, Prompt, Ready, Shutdown
from shared.updates import chunk, prompt_result, update_line

if TYPE_CHECKING:
    from shared.frames import WorkerSpec


class ScriptedWorker:
    """One epoch's end of the link, over real sockets."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self._context = zmq.Context[zmq.Socket[bytes]]()
        identity = bytes.fromhex(spec.identity)
        self.control = connect_dealer(self._context, spec.control, identity)
        self.data = connect_dealer(self._context, spec.data, identity)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.control.close()
        self.data.close()
        self._context.term()

    def boot(self) -> None:
        """As far as READY."""
        self.data.send([Header("hello", "1").encode(), b""])
        self.control.send([Hello(pid=1).encode()])
        self.control.send([Ready().encode()])

    async def prompted(self) -> Prompt:
        """The next prompt."""
        while True:
            for parts in await self.data.receive():
                frame = DATA_TO_WORKER.validate_json(parts[0])
                if isinstance(frame, Prompt):
                    return frame

    def say(self, text: str, message: str = "m1", records: int = 1) -> None:
        """A piece of the assistant's text."""
        line = update_line(
            self.spec.session_id, chunk("agent_message_chunk", text, message), self.spec.dialect
        )
        header = Header("chunk", f"{message}:agent_message_chunk", str(len(text)), records)
        self.data.send([header.encode(), line])

    def answer(self, turn_id: str) -> None:
        """The turn's answer."""
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        result = json.dumps(prompt_result("end_turn", usage, self.spec.dialect)).encode()
        self.data.send([Header("answer", turn_id, "", 2).encode(), result])

    async def until_told_to_end(self) -> None:
        """Answer pings until the front ends this worker."""
        while True:
            for parts in await self.control.receive():
                match TO_WORKER.validate_json(parts[0]):
                    case Ping(n=n):
                        self.control.send([Ack(n=n).encode()])
                    case Shutdown():
                        return
