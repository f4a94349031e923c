"""What a front that died left behind is ended and removed, and what a living one has is let be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from supervisor.runtime import RuntimeFolder, clean_stale

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FRONT = """
import os, pathlib, sys, time
from supervisor.runtime import RuntimeFolder
folder = RuntimeFolder(pathlib.Path(sys.argv[1]))
for pid in sys.argv[2:]:
    folder.add(int(pid))
print(folder.path, flush=True)
time.sleep(600)
"""


def front(root: Path, *pids: int) -> tuple[subprocess.Popen[bytes], str]:
    """Another front, with its folder, that lives until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", FRONT, str(root), *map(str, pids)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, process.stdout.readline().decode().strip()


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends only if it is killed: SIGTERM does nothing to it."""
    with subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600 & wait; wait"]) as process:
        yield process
        if process.poll() is None:
            for left in psutil.Process(process.pid).children():
                left.kill()
            process.kill()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RuntimeFolder]:
    folder = RuntimeFolder(tmp_path)
    yield folder
    folder.close()


def test_the_folder_is_private_and_gone_when_it_is_closed(tmp_path: Path) -> None:
    folder = RuntimeFolder(tmp_path)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert str(os.getpid()) in folder.path.name
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_front_that_died_leaves_nothing_running(
    tmp_path: Path, own: RuntimeFolder, child: subprocess.Popen[bytes]
) -> None:
    below = psutil.Process(child.pid).children() or []
    dead, path = front(tmp_path, child.pid)
    kill(dead)
    os.kill(child.pid, signal.SIGSTOP)  # cannot end itself
    clean_stale(tmp_path, own.path)
    assert child.wait(10) == -signal.SIGKILL
    psutil.wait_procs(below, 10)
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in below)
    assert [folder.name for folder in tmp_path.iterdir()] == [own.path.name]
    assert not os.path.exists(path)


def test_a_living_front_keeps_its_folder_and_its_processes(
    tmp_path: Path, own: RuntimeFolder, child: subprocess.Popen[bytes]
) -> None:
    living, path = front(tmp_path, child.pid)
    try:
        clean_stale(tmp_path, own.path)
        assert child.poll() is None
        assert os.path.isdir(path)
    finally:
        kill(living)


def test_a_front_never_cleans_its_own_folder(own: RuntimeFolder, tmp_path: Path) -> None:
    own.add(os.getpid())
    clean_stale(tmp_path, own.path)
    assert own.path.is_dir()


def test_a_process_that_has_the_number_of_a_dead_one_is_let_be(
    tmp_path: Path, own: RuntimeFolder, child: subprocess.Popen[bytes]
) -> None:
    dead, path = front(tmp_path)
    kill(dead)
    started = psutil.Process(child.pid).create_time()
    with open(f"{path}/processes/{child.pid}.{started - 5:.2f}", "w"):
        pass
    clean_stale(tmp_path, own.path)
    assert child.poll() is None
    assert not os.path.exists(path)


def test_a_process_that_ended_is_forgotten(
    tmp_path: Path, own: RuntimeFolder, child: subprocess.Popen[bytes]
) -> None:
    own.add(child.pid)
    listed = own.path / "processes"
    assert len(list(listed.iterdir())) == 1
    own.remove(child.pid)
    own.remove(child.pid)
    assert list(listed.iterdir()) == []


def test_a_process_that_is_gone_already_cannot_be_added(own: RuntimeFolder) -> None:
    done = subprocess.run(["true"], check=True)
    assert done.returncode == 0
    own.add(2**22 + 1)
    assert list((own.path / "processes").iterdir()) == []


@pytest.mark.parametrize(
    "broken", ["nothing", "file", "half removed", "half made", "nonsense", "dangling", "a folder for a lock"]
)
def test_whatever_lies_in_the_root_the_next_front_starts(
    tmp_path: Path, own: RuntimeFolder, broken: str
) -> None:
    other = tmp_path / "1-abc"
    if broken == "file":
        other.touch()
    elif broken == "dangling":
        other.symlink_to("nowhere")
    elif broken != "nothing":
        other.mkdir()
    if broken in ("half removed", "nonsense"):
        (other / "front.lock").touch()
    if broken == "a folder for a lock":
        (other / "front.lock").mkdir()
    if broken == "nonsense":
        (other / "processes").mkdir()
        for name in ("x", "a.b", "-1.5", "0.0", f"{10**30}.1", "1.", ".1", "5.nan"):
            (other / "processes" / name).touch()
    clean_stale(tmp_path, own.path)
    assert own.path.is_dir()
    if broken in ("half removed", "nonsense"):
        assert not other.exists()


def test_two_fronts_that_start_at_once_do_not_take_each_other_for_dead(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from supervisor.runtime import RuntimeFolder, clean_stale\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "for _ in range(150):\n"
        "    folder = RuntimeFolder(root)\n"
        "    clean_stale(root, folder.path)\n"
        "    assert (folder.path / 'front.lock').exists(), 'taken for dead'\n"
        "    folder.close()\n"
    )
    racers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    told = [racer.communicate(timeout=50)[1].decode() for racer in racers]
    assert [(racer.returncode, text) for racer, text in zip(racers, told, strict=True)] == [(0, "")] * 3
