"""The main job, shown: two sessions stream, one worker is killed in the middle, and nothing is lost.

Runs `iac-code acp` as an editor would, in a temporary home, with the built-in offline model: no key, no
network, none of the user's sessions. Each claim is checked on the raw lines; exit code 0 only if all held.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import psutil

from ops.side_by_side import SideBySide
from tests.e2e.client import RawClient, start_agent, wait_gone

COUNT = 20
_LONGEST = 60.0
"""Seconds for all of it; it takes about ten."""


class Claims:
    """Prints each claim with ✓ or ✗."""

    def __init__(self) -> None:
        self.all_held = True

    def check(self, held: bool, claim: str, details: str = "") -> None:
        """`details` is shown only if it did not hold."""
        self.all_held = self.all_held and held
        print(f"  {'✓' if held else '✗'} {claim}{f': {details}' if details and not held else ''}")


def numbers(text: str) -> list[int]:
    """The numbers that a session counted."""
    return [int(word) for word in re.findall(r"\d+", text)]


async def demo(home: Path) -> bool:
    """Whether all claims held."""
    claims = Claims()
    began = time.perf_counter()
    with anyio.fail_after(_LONGEST):
        async with start_agent(home) as editor:
            answer = await editor.initialize()
            ms = (time.perf_counter() - began) * 1000
            print(f"iac-code {answer['agentInfo']['version']} answered initialize after {ms:.0f} ms.")
            await _kill_one(editor, home, claims)
            workers = psutil.Process(editor.process.pid).children(recursive=True)
            print(f"\nThe editor closes the connection; {1 + len(workers)} processes ran.")
            assert editor.process.stdin is not None
            await editor.process.stdin.aclose()
            with anyio.move_on_after(3.0):
                await editor.process.wait()
            claims.check(editor.process.returncode == 0, "the agent ended by itself, with exit code 0")
            alive = await wait_gone(workers, within=1.0)
            claims.check(not alive, "no process is left", str(alive))
            claims.check(not editor.stderr, "nothing was said on stderr", repr(editor.stderr))
            claims.check(not editor.faults, f"all {len(editor.lines)} lines were whole", str(editor.faults))
    verdict = "All of it held" if claims.all_held else "NOT ALL OF IT HELD"
    print(f"\n{verdict} ({time.perf_counter() - began:.1f} s).")
    return claims.all_held


async def _kill_one(editor: RawClient, home: Path, claims: Claims) -> None:
    a, b = await editor.new_session(home), await editor.new_session(home)
    prompt = f"count to {COUNT} slowly"
    print(f"Two sessions, each in a process of its own, are told to “{prompt}”.\n")
    screen = SideBySide({a: f"A {a[:8]}", b: f"B {b[:8]}"})
    editor.watch = screen.take
    prompt_a, prompt_b = await editor.begin_prompt(a, prompt), await editor.begin_prompt(b, prompt)
    await editor.wait_until(lambda: 6 in numbers(editor.text(a)) and 6 in numbers(editor.text(b)))

    worker = editor.worker(a)
    assert worker is not None, "session A streams, but has no worker process"
    screen.across(f"kill -9 {worker.pid}   (the worker of A)")
    worker.kill()
    killed_at = len(editor.text(a))
    answer_a, answer_b = await editor.answer_to(prompt_a), await editor.answer_to(prompt_b)
    screen.end()

    print("\nSession B:")
    counted = numbers(editor.text(b))
    claims.check(
        answer_b.get("result", {}).get("stopReason") == "end_turn", "its turn ended well", str(answer_b)
    )
    claims.check(counted == list(range(1, COUNT + 1)), f"it counted 1 to {COUNT}, in order", str(counted))
    print("Session A:")
    _check_killed_turn(editor, a, answer_a, killed_at, claims)
    await _check_back(editor, a, home, worker.pid, claims)
    answers = [len(editor.answers(prompt)) for prompt in (prompt_a, prompt_b)]
    print("Both:")
    claims.check(answers == [1, 1], "each prompt got exactly one answer", str(answers))


def _check_killed_turn(
    editor: RawClient, a: str, answer: dict[str, Any], killed_at: int, claims: Claims
) -> None:
    if "result" in answer:
        after = numbers(editor.text(a)[killed_at:])
        claims.check(
            answer["result"]["stopReason"] == "end_turn", "its turn went on by itself in a new worker"
        )
        claims.check(after[-1:] == [COUNT], f"and counted to {COUNT}", str(after))
        return
    reason = answer["error"].get("data", {}).get("reason")
    told = answer["error"]["code"] == -32603 and bool(reason)
    claims.check(told, f"its turn was answered with what happened: {reason}", json.dumps(answer["error"]))


async def _check_back(editor: RawClient, a: str, home: Path, killed: int, claims: Claims) -> None:
    answer = await editor.prompt(a, "say I am back")
    claims.check(
        answer.get("result", {}).get("stopReason") == "end_turn" and "I am back" in editor.text(a),
        "it answers a new prompt",
        str(answer),
    )
    worker = editor.worker(a)
    pid = worker.pid if worker is not None else None
    claims.check(pid not in {None, killed}, f"from a new worker, process {pid}")
    before = len(editor.updates(a))
    await editor.call("session/load", {"sessionId": a, "cwd": str(home), "mcpServers": []})
    replayed = json.dumps(editor.updates(a)[before:])
    claims.check(
        f"count to {COUNT} slowly" in replayed and "I am back" in replayed,
        "with its conversation: loading it again replays both prompts",
        replayed,
    )


def main() -> int:
    """Run the demo; the exit code."""
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="iac-code-demo-"))
        try:
            return 0 if anyio.run(demo, Path(home)) else 1
        except (AssertionError, TimeoutError) as e:
            print(f"\n  ✗ the demo could not go on: {e or 'what it waited for did not come'}")
            return 1


if __name__ == "__main__":
    sys.exit(main())
