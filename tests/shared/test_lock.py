"""A session is open in one place, until the last that has its lock is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from shared.lock import SessionHeld, SessionLock, acquire_within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = (
    "import os, pathlib, sys; from shared.lock import SessionLock\n"
    "lock = SessionLock.acquire(pathlib.Path(sys.argv[1]))\n"
)
WAIT = "print('held', flush=True); sys.stdin.read()"
FRONT_AND_WORKER = (
    "import subprocess\n"
    "worker = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], pass_fds=[lock.fd],"
    " stdin=subprocess.PIPE)\n"
    "print(worker.pid, flush=True); sys.stdin.read()"
)


@contextlib.contextmanager
def process(code: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that runs the code, and the first line that it printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD + code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as started:
        assert started.stdout is not None
        try:
            yield started, started.stdout.readline().strip()
        finally:
            started.kill()


def test_a_lock_that_is_held_tells_by_whom(tmp_path: Path) -> None:
    with process(WAIT, tmp_path) as (holder, line):
        assert line == "held"
        with pytest.raises(SessionHeld) as raised:
            SessionLock.acquire(tmp_path)
        assert raised.value.pid == holder.pid
        assert str(holder.pid) in str(raised.value)
        holder.kill()
        holder.wait()
        lock = SessionLock.acquire(tmp_path)
        assert int((tmp_path / "lock").read_text()) == os.getpid()
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
        assert not os.get_inheritable(lock.fd)
        lock.release()


def test_a_dead_fronts_worker_still_has_the_lock(tmp_path: Path) -> None:
    with process(FRONT_AND_WORKER, tmp_path) as (front, line):
        worker = int(line)
        worker_end = os.pidfd_open(worker)
        # The worker's stdin is the front's: it would end with it.
        os.kill(worker, signal.SIGSTOP)
        front.kill()
        front.wait()
        with pytest.raises(SessionHeld) as raised:
            SessionLock.acquire(tmp_path)
        assert raised.value.pid is None, "a process that is gone helps nobody"

        async def wait_for_it() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(acquire_and_release)
                await anyio.sleep(0.05)
                os.kill(worker, signal.SIGKILL)

        async def acquire_and_release() -> None:
            (await acquire_within(tmp_path, 30)).release()

        try:
            anyio.run(wait_for_it)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
            os.close(worker_end)


def test_it_is_held_in_the_same_process_too(tmp_path: Path) -> None:
    lock = SessionLock.acquire(tmp_path)
    with pytest.raises(SessionHeld) as raised:
        SessionLock.acquire(tmp_path)
    assert raised.value.pid == os.getpid()
    lock.release()
    SessionLock.acquire(tmp_path).release()


def test_releasing_here_leaves_it_with_who_has_a_duplicate(tmp_path: Path) -> None:
    lock = SessionLock.acquire(tmp_path)
    duplicate = os.dup(lock.fd)
    lock.release()
    with pytest.raises(SessionHeld):
        SessionLock.acquire(tmp_path)
    os.close(duplicate)
    SessionLock.acquire(tmp_path).release()


@pytest.mark.parametrize(
    "content", [b"", b"garbage\n", b"\0" * 50, b"-5", b"0", b"9" * 20, b"99999999 \n rest"]
)
def test_a_lock_file_with_odd_content_is_locked_and_held_all_the_same(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lock").write_bytes(content)
    lock = SessionLock.acquire(tmp_path)
    (tmp_path / "lock").write_bytes(content)
    with pytest.raises(SessionHeld) as raised:
        SessionLock.acquire(tmp_path)
    assert raised.value.pid is None
    lock.release()


def test_a_session_that_is_gone_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SessionLock.acquire(tmp_path / "gone")


@pytest.mark.anyio
async def test_waiting_ends_when_the_time_is_up(tmp_path: Path) -> None:
    lock = SessionLock.acquire(tmp_path)
    begin = anyio.current_time()
    with pytest.raises(SessionHeld):
        await acquire_within(tmp_path, 0.1)
    assert 0.05 <= anyio.current_time() - begin < 5
    with pytest.raises(SessionHeld):
        await acquire_within(tmp_path, 0)
    lock.release()
    (await acquire_within(tmp_path, 0)).release()


@pytest.mark.anyio
async def test_waiting_can_be_cancelled_and_leaves_nothing(tmp_path: Path) -> None:
    lock = SessionLock.acquire(tmp_path)
    with anyio.move_on_after(0.05) as scope:
        await acquire_within(tmp_path, 60)
    assert scope.cancelled_caught
    lock.release()
    (await acquire_within(tmp_path, 0)).release()
