"""The guard against leaks finds each kind, and takes nothing for a leak that is none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest
from anyio import to_thread

from tests.leaks import Snapshot, left

if TYPE_CHECKING:
    from pathlib import Path


def test_a_thread_that_still_runs_is_found(tmp_path: Path) -> None:
    before, go = Snapshot.take(), threading.Event()
    thread = threading.Thread(target=go.wait, name="forgotten")
    thread.start()
    try:
        assert left(before, tmp_path, 0.0)[0] == ["thread 'forgotten'"]
    finally:
        go.set()
        thread.join()
    assert left(before, tmp_path)[0] == []


def test_an_open_descriptor_is_found(tmp_path: Path) -> None:
    before = Snapshot.take()
    fd = os.open(tmp_path / "file", os.O_CREAT | os.O_RDONLY)
    try:
        assert left(before, tmp_path, 0.0)[0] == [f"descriptor {fd} ({tmp_path / 'file'})"]
    finally:
        os.close(fd)
    assert left(before, tmp_path)[0] == []


def test_a_descriptor_that_took_the_number_of_another_is_found(tmp_path: Path) -> None:
    first = os.open(tmp_path / "first", os.O_CREAT | os.O_RDONLY)
    before = Snapshot.take()
    os.close(first)
    second = os.open(tmp_path / "second", os.O_CREAT | os.O_RDONLY)
    try:
        assert second == first
        assert len(left(before, tmp_path, 0.0)[0]) == 1
    finally:
        os.close(second)


def test_a_child_that_nobody_waited_for_is_found(tmp_path: Path) -> None:
    before = Snapshot.take()
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            found, processes = left(before, tmp_path, 0.0)
            assert found == [f"process {child.pid} (sleep 60)"]
            assert [process.pid for process in processes] == [child.pid]
        finally:
            child.kill()
    assert left(before, tmp_path)[0] == []


def test_a_process_that_set_itself_apart_is_found_by_the_folder_that_it_works_in(tmp_path: Path) -> None:
    before = Snapshot.take()
    script = "import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\n"
    script += "os.close(1)\nos.execvp('sleep', ['sleep', '60'])"
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, check=True, stdout=subprocess.PIPE
    ).stdout
    daemon = psutil.Process(int(told))
    try:
        assert [process.pid for process in left(before, tmp_path, 0.0)[1]] == [daemon.pid]
    finally:
        daemon.kill()
    assert left(before, tmp_path)[0] == []


@pytest.mark.anyio
async def test_the_pool_of_a_running_loop_is_no_leak(tmp_path: Path) -> None:
    before = Snapshot.take()
    await to_thread.run_sync(threading.current_thread)
    assert left(before, tmp_path, 0.0)[0] == []


def test_the_pool_of_a_loop_that_was_closed_is_given_time_to_end(tmp_path: Path) -> None:
    before = Snapshot.take()
    anyio.run(to_thread.run_sync, threading.current_thread)
    assert left(before, tmp_path)[0] == []
