"""Whatever happens in whatever order: one answer a request, no frame to nobody, nothing asked or run twice.

The rules are the assertions of `Shell`; this makes the events. Restart policy and liveness take part, with
a clock that is a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
    run_state_machine_as_test,
)

from shared.frames import Open, Prompt, Reply
from supervisor.restarts import DELAYS
from tests.supervisor.session_clients import SessionClients
from tests.supervisor.shell import ENDED

if TYPE_CHECKING:
    from supervisor.turns import OpenTurn

STOPS = ("end_turn", "cancelled", "max_tokens", "max_turn_requests", "refusal")


class SessionLife(SessionClients):
    """One session, its clients, its worker, and the front's policies, for any sequence of events."""

    @precondition(lambda self: self.worker and not self.shell.epoch.ready)
    @rule()
    def ready(self) -> None:
        machine = self.shell.machine
        turn, ending = machine.turn, machine.worker == "ending"
        epoch = self.shell.ready()
        self.records, self.heard = 0, self.shell.now
        self.breaker.on_boot()
        if ending:
            assert not epoch.got
            return
        self.ever_ready = True
        self.liveness.watch("s", self.shell.now)
        opened = epoch.got[0]
        assert isinstance(opened, Open)
        assert opened.options == machine.options
        delivered = [frame.turn_id for frame in epoch.got if isinstance(frame, Prompt)]
        assert opened.resuming == (turn.turn_id if turn else None)
        if turn is not None:
            assert delivered[-1] == turn.turn_id, "an open turn does not come to the new epoch"
            assert opened.calls == turn.calls

    @precondition(lambda self: self.running)
    @rule(records=st.integers(0, 1), status=st.sampled_from(["pending", "in_progress", *ENDED]))
    def tool_call(self, records: int, status: str) -> None:
        assert self.running is not None
        if self.of(self.running).answer is None:
            self.records += records
            self.shell.call(self.new("call"), status, self.records)

    @precondition(lambda self: self.running is not None and not set(self.shell.calls.values()) <= set(ENDED))
    @rule(data=st.data(), status=st.sampled_from(["in_progress", *ENDED]))
    def tool_call_goes_on(self, data: st.DataObject, status: str) -> None:
        open_calls = sorted(call for call, now in self.shell.calls.items() if now not in ENDED)
        self.shell.call(data.draw(st.sampled_from(open_calls)), status, self.records)

    @precondition(lambda self: self.running)
    @rule(text=st.text(min_size=1, max_size=3))
    def chunk(self, text: str) -> None:
        self.shell.frame("chunk", "m:agent_message_chunk", str(len(text)), b"{}\n", self.records)

    @precondition(lambda self: self.running)
    @rule()
    def asks_client(self) -> None:
        assert self.running is not None
        if self.of(self.running).answer is None:
            key = self.new("key")
            self.keys.add(key)
            self.shell.frame("request", key, "session/request_permission", {})
            assert key in self.shell.open_keys

    @precondition(lambda self: self.running and self.keys)
    @rule(data=st.data())
    def asks_again_what_an_earlier_epoch_had_asked(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.keys)))
        epoch, machine = self.shell.epoch, self.shell.machine
        request = machine._dialogs._open.get(key)
        if epoch is None or request is None or request.asked_by == epoch.number:
            return
        times, answered = self.shell.asked_keys.count(key), key not in self.shell.open_keys
        self.shell.frame("request", key, "session/request_permission", {})
        assert self.shell.asked_keys.count(key) == times, "the client is asked twice"
        assert any(isinstance(frame, Reply) and frame.key == key for frame in epoch.got) == answered

    @precondition(lambda self: self.running and self.keys)
    @rule(data=st.data())
    def withdraws(self, data: st.DataObject) -> None:
        self.shell.frame("withdraw", data.draw(st.sampled_from(sorted(self.keys))))

    @precondition(lambda self: self.running)
    @rule(stop=st.sampled_from([*STOPS, "error"]))
    def answers(self, stop: str) -> None:
        machine, turn_id = self.shell.machine, self.running
        assert turn_id is not None
        current = machine.turn is not None and machine.turn.turn_id == turn_id
        following = machine.waiting[0] if machine.waiting else None
        if stop == "error":
            self.shell.fail(turn_id)
        else:
            self.shell.end(turn_id, stop)
        if not current:
            return
        assert self.of(turn_id).answer == stop
        self.keys.clear()
        if following is not None:
            assert (machine.turn is following) == (stop == "end_turn")
            assert self.of(following.turn_id).answer == (None if stop == "end_turn" else "cancelled")

    @precondition(lambda self: self.ready_worker)
    @rule()
    def answers_what_it_was_not_asked(self) -> None:
        before = [asked.answer for asked in self.shell.prompts]
        self.shell.end("no such turn")
        assert [asked.answer for asked in self.shell.prompts] == before

    @precondition(lambda self: self.ready_worker and self.shell.epoch.replaying())
    @rule(data=st.data(), done=st.booleans())
    def replays(self, data: st.DataObject, done: bool) -> None:
        assert self.shell.epoch is not None
        key = data.draw(st.sampled_from(self.shell.epoch.replaying()))
        if done:
            self.shell.frame("answer", key, "", {})
        else:
            self.shell.frame("replay", key, "1", b"{}\n")

    @precondition(lambda self: self.worker and self.shell.epoch.killed)
    @rule(kind=st.sampled_from(["update", "chunk", "answer", "request"]))
    def talks_while_it_is_killed(self, kind: str) -> None:
        assert self.shell.epoch is not None
        turns = [frame.turn_id for frame in self.shell.epoch.got if isinstance(frame, Prompt)]
        said, asked = len(self.shell.lines), len(self.shell.asked_keys)
        key = turns[-1] if kind == "answer" else "late"
        self.shell.frame(kind, key, "1", {"stopReason": "end_turn"})
        assert (len(self.shell.lines), len(self.shell.asked_keys)) == (said, asked)

    @precondition(lambda self: self.worker)
    @rule(order=st.booleans())
    def dies(self, order: bool) -> None:
        shell, machine = self.shell, self.shell.machine
        assert shell.epoch is not None
        booted, wanted = shell.epoch.ready, shell.epoch.stopped and order
        turn, closed = machine.turn, machine.closed
        self.liveness.forget("s")
        starting = machine.worker == "starting"
        if starting and not wanted:
            self.breaker.on_boot_failure(shell.now)
        boots_stopped = self.breaker.is_open(shell.now)
        boot_failure = starting and (boots_stopped or not self.ever_ready)
        if not wanted and not boot_failure:
            self.deaths = 1 if self.records and not starting else self.deaths + 1
        shell.die(wanted=wanted, boots_stopped=boots_stopped)
        if closed:
            assert not shell.has_worker, "a closed session gets a worker"
        elif wanted:
            needed = turn is not None or any(answer is None for answer in shell.replays.values())
            assert shell.has_worker == needed
            assert machine.turn is turn
        elif boot_failure:
            assert not booted
            assert not shell.has_worker
            assert turn is None or self.answer_of(turn) in ("error", "cancelled")
        elif self.deaths > len(DELAYS):
            assert machine.failed is not None
            assert not shell.has_worker
            assert turn is None or self.answer_of(turn) in ("error", "cancelled")
        else:
            assert shell.has_worker, "a dead worker is not replaced at once"
            if machine.recover == "continue":
                assert machine.turn is turn
        if turn is not None and turn is not machine.turn:
            assert (self.answer_of(turn) == "cancelled") == (turn.cancelled or closed)
            self.keys.clear()

    def answer_of(self, turn: OpenTurn) -> str | None:
        return self.of(turn.turn_id).answer

    @rule()
    def swept(self) -> None:
        # Idempotent for the worker, and at most one is on its way.
        if not self.shell.machine._swept:
            self.shell.do(self.shell.machine.swept())

    def teardown(self) -> None:
        if not hasattr(self, "shell"):
            return
        shell = self.shell
        if not shell.machine.closed:
            shell.do(shell.machine.close())
        if shell.epoch is not None:
            shell.die(wanted=True)
        assert not shell.has_worker
        assert all(asked.answer is not None for asked in shell.prompts), "a prompt is never answered"
        assert all(answer is not None for answer in shell.replays.values()), "a load is never answered"
        assert all(status in ENDED for status in shell.calls.values()), "a call runs for ever"
        assert not shell.open_keys, "a dialog stays open for ever"


@pytest.mark.timeout(120)
def test_no_sequence_of_events_breaks_a_session() -> None:
    run_state_machine_as_test(
        SessionLife,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
