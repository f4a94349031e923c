"""What leaves a worker: the first text at once, the rest a frame at a time, all in order and on credit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from shared.frames import Header
from worker import events as ev
from worker import publisher as publisher_module
from worker.publisher import WINDOW, Publisher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.channel import UnreliableChannel

pytestmark = pytest.mark.anyio


@dataclass
class Sent:
    """Stands for the link: keeps what is sent."""

    frames: list[tuple[Header, bytes]] = field(default_factory=list)
    changed: anyio.Event | None = None

    def send(self, parts: Sequence[bytes]) -> None:
        header, payload = parts
        self.frames.append((Header.decode(header), payload))
        if self.changed is not None:
            self.changed.set()

    async def until(self, text: str) -> None:
        """Returns when all that was said is this."""
        with anyio.fail_after(10):
            while "".join(self.texts()) != text:
                self.changed = anyio.Event()
                await self.changed.wait()

    def kinds(self) -> list[str]:
        return [header.kind for header, _ in self.frames]

    def updates(self) -> list[dict[str, Any]]:
        return [
            json.loads(payload)["params"]["update"]
            for header, payload in self.frames
            if header.kind in ("update", "chunk", "replay")
        ]

    def texts(self) -> list[str]:
        return [update["text"] for update in self.updates() if "text" in update]


class Clock:
    """The time that the publisher sees."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(publisher_module, "time", clock)
    return clock


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
async def publisher(sent: Sent, clock: Clock) -> Publisher:
    return Publisher(cast("UnreliableChannel", sent), "s", "both")


async def say(publisher: Publisher, text: str, message: str = "m") -> None:
    await publisher.publish(ev.TextDelta(text, message))


STARTED = ev.ToolUseStart("c", "Run", "execute", "in_progress", {})
ENDED = ev.ToolResult("c", "completed", [], {})


async def test_the_first_text_leaves_at_once(publisher: Publisher, sent: Sent) -> None:
    await say(publisher, "Hi")
    assert sent.texts() == ["Hi"]


async def test_text_within_a_frame_is_merged_and_leaves_with_the_next_frame(
    publisher: Publisher, sent: Sent, clock: Clock
) -> None:
    for piece in ("a", "b", "c"):
        await say(publisher, piece)
    assert sent.texts() == ["a"]
    clock.now += 0.02
    await say(publisher, "d")
    assert sent.texts() == ["a", "bcd"]


async def test_text_that_nothing_follows_leaves_when_its_frame_is_due(sent: Sent) -> None:
    publisher = Publisher(cast("UnreliableChannel", sent), "s", "both")
    async with anyio.create_task_group() as group:
        group.start_soon(publisher.flush_frames)
        for piece in ("a", "b"):
            await say(publisher, piece)
        await sent.until("ab")
        for piece in ("c", "d", "e"):
            await say(publisher, piece)
        await sent.until("abcde")
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "event",
    [STARTED, ENDED, ev.ToolProgress("c"), ev.PlanChanged([]), ev.UsageChanged(1, 2), ev.Error("x")],
    ids=lambda event: type(event).__name__,
)
async def test_text_leaves_before_whatever_follows_it(
    publisher: Publisher, sent: Sent, event: ev.Event
) -> None:
    await say(publisher, "a")
    await say(publisher, "b")
    await publisher.publish(event)
    assert sent.texts()[:2] == ["a", "b"]
    assert len(sent.frames) == 3


@pytest.mark.parametrize("what", ["answer", "request", "title"])
async def test_text_leaves_before_an_answer_a_request_and_a_title(
    publisher: Publisher, sent: Sent, what: str
) -> None:
    await say(publisher, "a")
    await say(publisher, "b")
    if what == "answer":
        publisher.answer("t", {})
    elif what == "request":
        publisher.request("k", "m", {})
    else:
        publisher.send_title("x")
    assert sent.kinds() == ["chunk", "chunk", what]


async def test_thoughts_text_and_other_messages_are_not_merged(publisher: Publisher, sent: Sent) -> None:
    await publisher.publish(ev.ThinkingDelta("a", "m"))
    await publisher.publish(ev.ThinkingDelta("b", "m"))
    await say(publisher, "c")
    await say(publisher, "d")
    await say(publisher, "e", "m2")
    publisher.flush()
    assert [(u["sessionUpdate"], u["messageId"], u["text"]) for u in sent.updates()] == [
        ("agent_thought_chunk", "m", "a"),
        ("agent_thought_chunk", "m", "b"),
        ("agent_message_chunk", "m", "cd"),
        ("agent_message_chunk", "m2", "e"),
    ]


async def test_a_chunk_says_how_much_of_its_message_was_sent_in_all(publisher: Publisher, sent: Sent) -> None:
    publisher.shown["m:agent_message_chunk"] = 10  # by an earlier epoch
    for piece in ("äé", "x"):
        await say(publisher, piece)
    publisher.flush()
    headers = [header for header, _ in sent.frames]
    assert [(header.key, header.status) for header in headers] == [
        ("m:agent_message_chunk", "12"),
        ("m:agent_message_chunk", "13"),
    ]


async def test_a_notice_is_a_message_of_its_own(publisher: Publisher, sent: Sent) -> None:
    await say(publisher, "a")
    await publisher.publish(ev.Error("one"))
    await publisher.publish(ev.Compaction("two"))
    await say(publisher, "b")
    publisher.flush()
    updates = sent.updates()
    assert [update["text"] for update in updates] == ["a", "one", "two", "b"]
    assert len({update["messageId"] for update in updates}) == 3
    assert updates[0]["messageId"] == updates[3]["messageId"] == "m"


async def test_headers_tell_the_calls_the_records_and_the_keys(publisher: Publisher, sent: Sent) -> None:
    publisher.count_records(2)
    await publisher.publish(STARTED)
    publisher.count_records(1)
    await publisher.publish(ENDED)
    publisher.request("k", "session/request_permission", {"a": 1})
    publisher.withdraw("k")
    publisher.replay("r", 3, {"sessionUpdate": "plan", "entries": []})
    publisher.answer("t", {"stopReason": "end_turn"})
    publisher.answer("r", error={"code": -32603, "message": "m"})
    assert [header for header, _ in sent.frames] == [
        Header("update", "c", "in_progress", 2),
        Header("update", "c", "completed", 3),
        Header("request", "k", "session/request_permission", 3),
        Header("withdraw", "k", "", 3),
        Header("replay", "r", "3", 3),
        Header("answer", "t", "", 3),
        Header("answer", "r", "error", 3),
    ]
    payloads = [payload for _, payload in sent.frames]
    assert json.loads(payloads[2]) == {"sessionId": "s", "a": 1}
    assert json.loads(payloads[5]) == {"stopReason": "end_turn"}
    assert json.loads(payloads[6]) == {"code": -32603, "message": "m"}


async def test_open_calls_are_those_that_were_announced_and_have_not_ended(publisher: Publisher) -> None:
    await publisher.publish(STARTED)
    await publisher.publish(ev.ToolUseStart("sub", "x", "read", "pending", {}, parent_call_id="c"))
    assert publisher.open_calls == {"c": None, "sub": "c"}
    await publisher.publish(ENDED)
    assert publisher.open_calls == {"sub": "c"}


# Credit


def spend(publisher: Publisher) -> None:
    """Use up the window, by an update that is too large for it."""
    publisher.send_update({"sessionUpdate": "plan", "entries": ["x" * WINDOW]})


async def test_without_credit_an_event_waits_and_with_it_goes_on(publisher: Publisher, sent: Sent) -> None:
    spend(publisher)
    async with anyio.create_task_group() as group:
        group.start_soon(say, publisher, "late")
        await anyio.wait_all_tasks_blocked()
        assert sent.texts() == []
        publisher.add_credit(1)
        await anyio.wait_all_tasks_blocked()
        assert sent.texts() == [], "what was spent above the window is owed first"
        publisher.add_credit(WINDOW)
    assert sent.texts() == ["late"]


async def test_all_who_wait_for_credit_go_on_when_it_comes(publisher: Publisher, sent: Sent) -> None:
    spend(publisher)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(publisher.publish, ev.UsageChanged(number, 10))
                await anyio.wait_all_tasks_blocked()
            publisher.add_credit(2 * WINDOW)
    assert [update["used"] for update in sent.updates()[1:]] == [0, 1, 2, 3, 4]


async def test_a_waiter_that_is_cancelled_leaves_the_others(publisher: Publisher, sent: Sent) -> None:
    spend(publisher)
    with anyio.move_on_after(0.001):
        await say(publisher, "cancelled")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(say, publisher, "patient")
            await anyio.wait_all_tasks_blocked()
            publisher.add_credit(2 * WINDOW)
    assert sent.texts() == ["patient"]


async def test_answers_requests_and_replays_need_no_credit_and_use_none(
    publisher: Publisher, sent: Sent
) -> None:
    """The front gives back what clients read of updates: anything else would be lost for good."""
    for number in range(100):
        publisher.answer(f"t{number}", {"text": "x" * 3000})
        publisher.request(f"k{number}", "m", {"diff": "x" * 3000})
        publisher.replay("r", number, {"sessionUpdate": "plan", "entries": ["x" * 3000]})
        publisher.send_title("x" * 3000)
    with anyio.fail_after(10):
        await say(publisher, "still here")
    assert sent.texts() == ["still here"]


async def test_what_is_spent_is_what_the_front_is_told_was_sent(publisher: Publisher, sent: Sent) -> None:
    while True:
        with anyio.move_on_after(0) as scope:
            await publisher.publish(ev.PlanChanged([{"content": "x" * 1000}]))
        if scope.cancelled_caught:
            break
    under_way = sum(len(payload) for _, payload in sent.frames)
    assert WINDOW <= under_way < WINDOW + 2 * len(sent.frames[0][1])
    publisher.add_credit(under_way)
    with anyio.fail_after(10):
        await publisher.publish(ev.PlanChanged([]))
