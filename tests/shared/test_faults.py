"""Faults on purpose happen where and when they were asked for, and nowhere else."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from shared.faults import injector

if TYPE_CHECKING:
    from pathlib import Path


def run(code: str, faults: str | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("IAC_CODE_FAULTS", None)
    if faults is not None:
        environment["IAC_CODE_FAULTS"] = faults
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30, check=False
    )


def test_without_the_variable_a_point_is_an_empty_function() -> None:
    code = "from shared import faults; print(faults.fault_point is faults._nothing)"
    assert run(code, None).stdout == run(code, "").stdout == "True\n"


def test_a_fault_happens_at_the_nth_time_only() -> None:
    point = injector("enospc@disk.write#2")
    point("disk.write")
    point("disk.other")
    with pytest.raises(OSError, match="No space left") as raised:
        point("disk.write")
    assert raised.value.errno == errno.ENOSPC
    point("disk.write")


@pytest.mark.parametrize("number", ["EIO", "EROFS"])
def test_each_disk_fault_has_its_errno(number: str) -> None:
    with pytest.raises(OSError, match=r".") as raised:
        injector(f"{number.lower()}@p")("p")
    assert raised.value.errno == getattr(errno, number)


def test_an_armed_fault_happens_once_over_all_processes_and_whenever_it_is_armed(tmp_path: Path) -> None:
    armed = tmp_path / "armed"
    fault = f"eio@p:{armed}"
    point = injector(fault)
    point("p")
    armed.touch()
    with pytest.raises(OSError, match="Input/output"):
        point("p")
    injector(fault)("p")


def test_kill_is_sigkill_at_the_point(tmp_path: Path) -> None:
    code = (
        "from shared.faults import fault_point as p; p('a'); print('alive', flush=True); p('b'); print('no')"
    )
    armed = tmp_path / "armed"
    armed.touch()
    fault = f"kill@b#1:{armed}"
    killed = run(code, fault)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "alive\n")
    assert run(code, fault).returncode == 0


def test_stall_waits() -> None:
    begin = time.monotonic()
    injector("stall=0.05@p")("p")
    assert time.monotonic() - begin >= 0.05


@pytest.mark.parametrize("text", ["boom@p", "kill@", "kill", "kill@p#0", "stall@p", "kill@p,,"])
def test_a_fault_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no fault"):
        injector(text)
