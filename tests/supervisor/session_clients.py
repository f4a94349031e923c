"""A session's clients and the clock, as rules of a state machine; `test_session_property` adds the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from shared.settings import Settings
from supervisor.liveness import LATE, Liveness, Verdict
from supervisor.restarts import BootBreaker
from supervisor.session import MAX_WAITING
from tests.supervisor.shell import Shell

if TYPE_CHECKING:
    from shared.mcp_servers import McpServer
    from tests.supervisor.shell import Asked

SETTINGS = Settings()


class SessionClients(RuleBasedStateMachine):
    """What clients ask, in any order, while time passes and the front watches."""

    @initialize(recover=st.sampled_from(["continue", "report"]))
    def begin(self, recover: str) -> None:
        self.shell = Shell(recover=recover)
        self.liveness = Liveness(SETTINGS)
        self.breaker = BootBreaker()
        self.heard = 0.0
        self.records = 0
        self.numbers = 0
        self.ever_ready = False
        self.deaths = 0
        """In a row, without a record in between."""
        self.keys: set[str] = set()
        """Asked in the turn that runs."""

    @property
    def worker(self) -> bool:
        return self.shell.epoch is not None

    @property
    def ready_worker(self) -> bool:
        return self.worker and self.shell.machine.worker == "ready"

    @property
    def running(self) -> str | None:
        epoch = self.shell.epoch
        return epoch.running() if epoch is not None and self.ready_worker else None

    def of(self, turn_id: str) -> Asked:
        return next(asked for asked in self.shell.prompts if asked.turn_id == turn_id)

    def new(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind}{self.numbers}"

    # Clients

    @precondition(lambda self: not self.shell.machine.closed)
    @rule()
    def prompt(self) -> None:
        machine = self.shell.machine
        full, failed = len(machine.waiting) == MAX_WAITING, machine.failed is not None
        asked = self.shell.prompt()
        assert (asked.answer == "error") == (full or failed)

    @precondition(lambda self: not self.shell.machine.closed)
    @rule()
    def cancel(self) -> None:
        before = [asked for asked in self.shell.prompts if asked.answer is None]
        self.shell.cancel()
        left = [asked for asked in before if asked.answer is None]
        assert len(left) <= 1, "a cancel leaves waiting prompts"
        if left:
            assert any(timer.name.endswith(left[0].turn_id) for timer in self.shell.timers)

    @precondition(lambda self: self.shell.prompts and not self.shell.machine.closed)
    @rule(data=st.data())
    def cancel_request(self, data: st.DataObject) -> None:
        asked = data.draw(st.sampled_from(self.shell.prompts))
        self.shell.do(self.shell.machine.cancel_request(asked.ticket))

    @precondition(lambda self: not self.shell.machine.closed)
    @rule()
    def load(self) -> None:
        self.shell.load()
        self.deaths = 0
        assert self.shell.machine.failed is None

    @rule(mode=st.sampled_from(["default", "plan"]))
    def configure(self, mode: str) -> None:
        self.shell.do(self.shell.machine.configure({"mode": mode}))

    @precondition(lambda self: self.shell.asked_keys)
    @rule(data=st.data())
    def client_answers(self, data: st.DataObject) -> None:
        self.shell.reply(data.draw(st.sampled_from(self.shell.asked_keys)))

    @precondition(lambda self: not self.shell.machine.closed and self.shell.machine.failed is None)
    @rule()
    def take_up(self) -> None:
        self.shell.take_up()

    @rule()
    def wake(self) -> None:
        machine = self.shell.machine
        self.shell.do(machine.wake())
        assert self.worker or machine.closed or machine.failed is not None

    @precondition(lambda self: self.ready_worker)
    @rule()
    def hibernate(self) -> None:
        machine, shell = self.shell.machine, self.shell
        assert shell.epoch is not None
        busy = machine.turn is not None or any(answer is None for answer in shell.replays.values())
        shell.do(machine.hibernate())
        assert not (busy and shell.epoch.stopped), "a worker that is needed is sent away"
        if shell.epoch.stopped:
            self.liveness.forget("s")

    @rule(servers=st.just([]))
    def servers(self, servers: list[McpServer]) -> None:
        self.shell.do(self.shell.machine.use_servers(servers))

    @precondition(lambda self: not self.shell.machine.closed)
    @rule()
    def close(self) -> None:
        self.shell.do(self.shell.machine.close())
        self.liveness.forget("s")
        assert all(asked.answer is not None for asked in self.shell.prompts)
        assert all(answer is not None for answer in self.shell.replays.values())

    # The clock

    @precondition(lambda self: self.shell.timers)
    @rule()
    def cancel_overdue(self) -> None:
        name = self.shell.timers[0].name
        self.shell.overdue()
        if self.shell.epoch is not None and self.shell.epoch.killed:
            self.liveness.forget("s")
        assert self.of(name.partition(":")[2]).answer is not None
        if self.shell.machine.turn is None:
            self.keys.clear()

    @precondition(lambda self: self.ready_worker)
    @rule()
    def acks(self) -> None:
        self.heard = self.shell.now
        self.liveness.heard("s", self.shell.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 6.0, 20.0]), late=st.booleans())
    def time_passes(self, seconds: float, late: bool) -> None:
        if late:  # the check comes as much too late as time passes
            self.liveness.next_at(self.shell.now)
            if seconds > LATE:
                self.heard += seconds  # the front did not run: this silence says nothing
        self.shell.now += seconds
        self.liveness.in_turn("s", self.shell.machine.turn is not None)
        verdicts = dict(self.liveness.check(self.shell.now))
        in_turn = self.shell.machine.turn is not None
        limit = SETTINGS.kill_after_in_turn if in_turn else SETTINGS.kill_after_idle
        silent = self.shell.now - self.heard
        if verdicts.get("s") is Verdict.HUNG:
            assert self.ready_worker
            assert silent >= limit - 1e-6, "a worker that answered is taken for hung"
            self.liveness.forget("s")  # killed; until its exit is told it counts as there
