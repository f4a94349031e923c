"""Runs an agent and keeps what goes over its stdin and stdout: `record.py LOG PROGRAM ARGUMENT…`.

For clients that tests do not own: each is told that this is the agent. Each line of LOG is `>` or `<`
(to or from the agent) and the line as it went. It adds nothing of its own, and it ends with the agent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Copy both streams until the agent ends; its exit code."""
    log_path, *command = sys.argv[1:]
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: agent.send_signal(got))
    # A thread that is left in a read does not keep this process.
    threading.Thread(target=copy, args=(0, agent.stdin.fileno(), log, b">"), daemon=True).start()
    copy(agent.stdout.fileno(), 1, log, b"<")
    return agent.wait()


def copy(source: int, target: int, log: int, mark: bytes) -> None:
    """Copy until the source ends, then close the target."""
    line = b""
    while chunk := os.read(source, 1 << 16):
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            # In one write, so that lines of both directions do not mix; logged before it is passed on.
            os.write(log, mark + line + end + b"\n")
            line = b""
        line += rest
        try:
            left = memoryview(chunk)
            while left:
                left = left[os.write(target, left) :]
        except BrokenPipeError:
            return
    os.close(target)


if __name__ == "__main__":
    sys.exit(main())
