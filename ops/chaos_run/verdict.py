"""Judges a run by what its clients saw, what the tools left on disk and what the log says. Pure.

A turn counts as hit if a worker of its session was struck between the answer before it and its own. The
deaths of zygotes are no hits: running sessions must not notice them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ops.chaos_run.player import Player, Turn
    from ops.chaos_run.striker import Hit

_SLACK: Final = 0.25
"""Seconds by which a strike may be noticed late, or an answer be on its way when it falls."""


@dataclass
class Seen:
    """All that there is to judge."""

    players: Sequence[Player]
    hits: Sequence[Hit]
    effects: dict[int, list[str]]
    """By player's number: the lines that its tools have appended."""
    log: Sequence[dict[str, Any]]
    """The product's log up to the end of the last turn."""
    answers: Sequence[Counter[str]]
    """Of each front: how often each request was answered. All but the last one's died."""
    bad_lines: int
    left: Sequence[str]
    """Processes that outlived their front."""
    died: int
    """Fronts that ended though nobody struck them."""
    visits: int = 0
    """Clients that came and vanished."""


@dataclass
class Verdict:
    """`facts` are told, `faults` must be 0; `evidence` says what each fault was."""

    facts: dict[str, str] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    evidence: list[str] = field(default_factory=list)

    def count(self, fault: str, number: int, evidence: object = "") -> None:
        """Add to a fault's count."""
        self.faults[fault] += number
        if number:
            self.evidence.append(f"{fault}: {evidence}")


def judge(seen: Seen) -> Verdict:
    """The figures of a run."""
    verdict = Verdict()
    owners = _owners(seen.log)
    struck: dict[str, list[float]] = {player.session_id: [] for player in seen.players}
    for strike in seen.hits:
        if strike.kind == "front":
            for times in struck.values():
                times.append(strike.at)
        elif strike.pid in owners:
            struck.setdefault(owners[strike.pid], []).append(strike.at)  # a visitor's session, it may be
    turns = [turn for player in seen.players for turn in player.turns]
    finished = sum(turn.outcome == "end_turn" for turn in turns)
    kinds = Counter(hit.kind for hit in seen.hits)
    # A visitor's close, as the last client of a session, is a cause that no strike is.
    deaths = [
        entry
        for entry in seen.log
        if entry["message"] == "worker ended" and not entry["reason"].startswith("the session was closed")
    ]
    verdict.facts["turns finished"] = str(finished)
    verdict.facts["restarts"] = f"{len(deaths)}   (struck: {', '.join(f'{n} {k}' for k, n in kinds.items())})"
    if seen.visits:
        verdict.facts["clients that came and vanished"] = str(seen.visits)
    _judge_effects(seen, verdict)
    gaps = [0.0]
    given_up = 0
    for player in seen.players:
        before = 0.0
        for turn in player.turns:
            hit = any(before - _SLACK <= at <= turn.ended + _SLACK for at in struck[player.session_id])
            _judge_turn(turn, verdict, hit=hit)
            given_up += hit and turn.outcome == "error"
            if not hit:
                gaps += [b.at - a.at for a, b in pairwise(turn.deltas) if a.reply == b.reply]
            before = turn.ended
    verdict.facts["turns given up after repeated deaths"] = str(given_up)
    verdict.facts["worst gap in sessions not hit"] = f"{max(gaps) * 1000:.0f} ms"
    for number, answers in enumerate(seen.answers, start=1):
        for id_, count in answers.items():
            missing = count == 0 and number == len(seen.answers)
            verdict.count("answers missing or doubled", count > 1 or missing, f"{id_}: {count}")
    struck_pids = {hit.pid for hit in seen.hits}
    for death in deaths:
        verdict.count("restarts without a cause", death.get("worker") not in struck_pids, death)
    for player in seen.players:
        verdict.count(
            "turns lost or doubled in a loaded history", len(player.mis_replayed), player.mis_replayed
        )
    verdict.count("lines that are no JSON-RPC", seen.bad_lines)
    verdict.count("fronts that ended by themselves", seen.died)
    verdict.count("processes left", len(seen.left), seen.left)
    return verdict


def _owners(log: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Session ids by pid of their workers."""
    told = (entry for entry in log if entry["message"] in ("worker ready", "worker ended"))
    return {entry["worker"]: entry["session"] for entry in told if entry.get("worker") is not None}


def _judge_effects(seen: Seen, verdict: Verdict) -> None:
    for player in seen.players:
        happened = Counter(seen.effects.get(player.number, []))
        for token, times in happened.items():
            verdict.count("tool effects repeated", times - 1, f"{token}: {times} times")
        for turn in player.turns:
            for call_id, command in turn.commands.items():
                told = turn.calls.get(call_id) == "completed"
                lost = told and happened[command.split()[1]] == 0
                verdict.count("tool effects told but missing", lost, command)


def _judge_turn(turn: Turn, verdict: Verdict, *, hit: bool) -> None:
    name = turn.script.name
    if turn.outcome == "front gone":
        return
    if turn.outcome != "end_turn":
        verdict.count("turns failed without a cause", not hit, f"{name}: {turn.outcome} {turn.error}")
        return
    left_open = {id_: status for id_, status in turn.calls.items() if status not in ("completed", "failed")}
    verdict.count("tool calls left open", len(left_open), f"{name}: {left_open}")
    wanted = [(r, n) for r, deltas in enumerate(turn.script.replies) for n in range(deltas)]
    if not hit:
        came = [(delta.reply, delta.number) for delta in turn.deltas]
        verdict.count("deltas lost in sessions not hit", _differences(wanted, came), f"{name}: {came}")
        return
    whole: set[int] = set()
    for message_id in dict.fromkeys(delta.message_id for delta in turn.deltas):
        came = [(delta.reply, delta.number) for delta in turn.deltas if delta.message_id == message_id]
        due = [pair for pair in wanted if pair[0] == came[0][0]]
        torn = _differences(due[: len(came)], came)
        verdict.count("deltas lost within a message", torn, f"{name}: {came}")
        if came == due:
            whole.add(came[0][0])
    missing = set(range(len(turn.script.replies))) - whole
    verdict.count("replies never whole in turns that went on", len(missing), f"{name}: {missing}")


def _differences(wanted: list[tuple[int, int]], came: list[tuple[int, int]]) -> int:
    """0 if the same came in the same order; else how many are missing, too many or out of place."""
    if wanted == came:
        return 0
    return max((Counter(wanted) - Counter(came)).total() + (Counter(came) - Counter(wanted)).total(), 1)
