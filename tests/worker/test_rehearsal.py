"""The rehearsal in a process of its own, as the zygote plays it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import os, sys, threading, time
from shared.credentials import Credentials
from worker.models import anthropic
from worker import rehearsal
{before}
def held():
    found = [f"/proc/self/fd/{{fd}}" for fd in os.listdir("/proc/self/fd")]
    return [os.readlink(fd) for fd in found if os.path.lexists(fd)]
anthropic.anthropic_client(Credentials(api_key="none"))
environment, descriptors = dict(os.environ), held()
rehearsal.rehearse()
assert dict(os.environ) == environment
assert [file for file in held() if file not in descriptors] == [], held()
assert threading.active_count() == 1
# A thread that Python has joined is the kernel's for a moment longer.
end = time.monotonic() + 10
while len(os.listdir("/proc/self/task")) > 1:
    assert time.monotonic() < end
print("worker.tools.read_file" in sys.modules)
"""


def play(home: Path, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Rehearse with `home` for temporary files; checks that nothing is left of it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT.format(before=before)],
        env={**os.environ, "TMPDIR": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
    return done


def test_it_plays_whole_turns_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = play(tmp_path)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_users_settings_proxy_and_credentials_have_no_part_in_it(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "settings.json").write_text("no JSON")
    home = tmp_path / "home"
    home.mkdir()
    done = play(
        home,
        IAC_CODE_CONFIG_DIR=str(config),
        HTTP_PROXY="http://127.0.0.1:9",
        ANTHROPIC_API_KEY="",
        ANTHROPIC_CUSTOM_HEADERS="x: \u20ac",
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_too_late_it_leaves_nothing_behind_either(tmp_path: Path) -> None:
    done = play(tmp_path, "rehearsal._WITHIN = 0.02")
    assert "workers start unrehearsed" in done.stderr
    assert "TimeoutError" in done.stderr


def test_the_sdk_is_imported_whatever_becomes_of_the_rehearsal(tmp_path: Path) -> None:
    script = """
import sys
from worker.warm import warm_sdk
warm_sdk()
before = set(sys.modules)
import anyio, anthropic, httpx2
from worker.models.anthropic import _post
async def ask():
    sent = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"event: ping\\n\\n"))
    http = anthropic.DefaultAsyncHttpxClient(transport=sent)
    async with anthropic.AsyncAnthropic(api_key="k", base_url="http://h", http_client=http) as client:
        async for _ in await _post(client, {"model": "m"}):
            pass
anyio.run(ask)
print(sorted(name for name in sys.modules if name.startswith("anthropic") and name not in before))
"""
    for environment in ({"IAC_CODE_FAULTS": "kill@turn.begin"}, {"TMPDIR": "/proc"}):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "ANTHROPIC_API_KEY": "k", "IAC_CODE_CONFIG_DIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.stdout == "[]\n", done.stderr


def test_where_it_cannot_be_played_the_log_says_so(tmp_path: Path) -> None:
    done = play(tmp_path, "rehearsal._FILE = 'one\\0two'")
    assert "workers start unrehearsed" in done.stderr
    assert "embedded null byte" in done.stderr


def test_a_turn_that_fails_is_no_rehearsal(tmp_path: Path) -> None:
    done = play(
        tmp_path, "rehearsal._RESPONSE = b'HTTP/1.1 404 Not Found\\r\\ncontent-length: 0\\r\\n\\r\\n'"
    )
    assert "workers start unrehearsed" in done.stderr
    assert "the turn failed" in done.stderr
