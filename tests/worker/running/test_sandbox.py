"""What commands may write in the sandbox and what not: escapes tried one by one, with real programs."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from shared.settings import SandboxSetting
from worker import landlock
from worker.background import find_task
from worker.boundaries import resolve
from worker.ripgrep import binary
from worker.sandbox import Sandbox
from worker.scratch import Scratch
from worker.tools.base import Access, ToolContext, ToolOutput
from worker.tools.bash import TOOL, BashInput
from worker.tools.task_output import TOOL as TASK_OUTPUT
from worker.tools.task_output import TaskOutputInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    Bash = Callable[..., Awaitable[ToolOutput]]

DEFAULT: Final = SandboxSetting()
needs_landlock = pytest.mark.skipif(
    landlock.abi() < landlock.USABLE, reason="this kernel has no Landlock: THE SANDBOX IS NOT TESTED HERE"
)
pytestmark = [pytest.mark.anyio, needs_landlock]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "npm_config_cache"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that commands have no business in."""
    made = resolve(tmp_path) / "outside"
    (made / "full").mkdir(parents=True)
    (made / "kept").write_text("as it was")
    (made / "empty").mkdir()
    return made


def everything(folder: Path) -> dict[str, str]:
    """What is in a folder, to compare."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in folder.rglob("*")
    }


@pytest.fixture
async def bash(
    context: Callable[..., ToolContext], folder: Path, tmp_path: Path, home: Path
) -> AsyncIterator[Bash]:
    """Runs a command in the sandbox of a session that works in `folder`."""
    made: dict[SandboxSetting, Sandbox] = {}

    async def run(
        command: str,
        *,
        setting: SandboxSetting = DEFAULT,
        permitted: tuple[Access, ...] = (),
        roots: tuple[Path, ...] = (),
        **more: Any,
    ) -> ToolOutput:
        if setting not in made:
            scratch = Scratch(tmp_path / "session")
            made[setting] = Sandbox(setting, (folder, *roots), scratch, os.environ)
        given = dataclasses.replace(context(permitted=permitted), sandbox=made[setting])
        with anyio.fail_after(50):
            # Not what `python3` finds, which may be a slow wrapper.
            command = command.replace("python3", f"{sys.executable} -I").replace("rg ", f"{binary()} ")
            return await TOOL.run(BashInput(command=command, **more), given)

    yield run
    for sandbox in made.values():
        await sandbox.close()


ESCAPES = [
    "echo x > {out}/new",
    "echo x >> {out}/kept",
    ": > {out}/kept",
    "truncate -s 0 {out}/kept",
    "python3 -c 'import os; os.truncate(\"{out}/kept\", 0)'",
    "cd src && echo x > ../../outside/new",
    "cd / && echo x > ./{out}/new",
    "echo x > /proc/self/root{out}/new",
    "echo x > /proc/self/cwd/../outside/new",
    "echo x > /proc/$PPID/root{out}/new",
    "echo x > /proc/$PPID/cwd/../outside/new; cd /proc/$PPID/cwd && echo x > {out}/new",
    "ln {out}/kept here; echo x > here",
    "ln src/a {out}/new",
    "cp src/a {out}/new",
    "mv src/a {out}/new",
    "mv {out}/kept here",
    "mv {out}/full src/full",
    'python3 -c \'import os; os.rename("src/a", "{out}/new")\'',
    'python3 -c \'import os; os.rename("{out}/kept", "src/a")\'',
    'python3 -c \'import os; f = os.open("{out}", os.O_RDONLY); os.open("new", os.O_CREAT, dir_fd=f)\'',
    "python3 -c 'import os; os.open(\"{out}\", os.O_TMPFILE | os.O_RDWR)'; false",
    "ln -s {out} link; echo x > link/new; rm -r link/",
    "ln -s {out}/new link; echo x > link",
    "rm {out}/kept",
    "rm -rf {out}",
    "rmdir {out}/empty",
    "mkdir {out}/new",
    "mkfifo {out}/new",
    "mknod {out}/new c 1 3",
    "ln -s x {out}/new",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{out}/new\")'",
    "mount --bind {out} src && echo x > src/new",
    "unshare -rm sh -c 'mount --bind {out} src && echo x > src/new'",
    "chroot / sh -c 'echo x > {out}/new'",
    "setsid nohup sh -c 'echo x > {out}/new' & wait",
    "(sh -c 'sleep 0.1; echo x > {out}/new' &); sleep 0.3",
    "echo 'echo x > {out}/new' | at now; false",
    "exec 3<{out}/kept; echo x > /proc/self/fd/3",
    "exec 3<{out}; echo x > /dev/fd/3/new",
    "find {out} -name kept -delete",
    "sed -i s/was/is/ {out}/kept",
    "git init -q {out}/new",
    "tar -C src -cf {out}/new.tar a",
    "dd if=src/a of={out}/new",
    "script -qc 'echo x > {out}/new' /dev/null",
    "bash -c 'exec 5<>{out}/new'",
    'perl -e \'open(F, ">", "{out}/new")\'; false',
    "echo x > ~/new; echo x > ~/.bashrc; mkdir ~/new; false",
    "echo 1 > /proc/self/oom_score_adj; false",
]


@pytest.mark.parametrize("escape", ESCAPES)
async def test_nothing_outside_is_written(
    bash: Bash, folder: Path, outside: Path, home: Path, escape: str
) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "a").write_text("a")
    before = everything(outside), everything(home).keys() - {".cache"}
    output = await bash(escape.replace("{out}", str(outside)))
    after = everything(outside), {name for name in everything(home) if name.split("/")[0] not in MADE}
    assert after == (before[0], before[1])
    # Not all fail as a whole, but that nothing came of it must not be for want of the program alone.
    assert output.text, output


MADE = (".cache", ".npm", ".terraform.d", ".cargo", ".m2", ".kube", "go", ".docker", ".yarn", ".local")
"""Caches, which are made in a home folder that lacks them."""


async def test_a_link_that_is_swapped_while_running_leads_nowhere(
    bash: Bash, folder: Path, outside: Path
) -> None:
    (folder / "in").mkdir()
    before = everything(outside)
    swap = (
        "import os, threading, sys\n"
        "os.symlink('in', 'to')\n"
        "def swap():\n"
        "    for i in range(1500):\n"
        f"        os.symlink(({str(outside)!r}, 'in')[i % 2], 'next'); os.rename('next', 'to')\n"
        "t = threading.Thread(target=swap); t.start()\n"
        "inside = refused = 0\n"
        "while t.is_alive():\n"
        "    try:\n"
        "        open('to/f', 'w').close(); inside += 1\n"
        "    except PermissionError:\n"
        "        refused += 1\n"
        "print('inside', inside > 0, 'refused', refused > 0)\n"
    )
    (folder / "swap.py").write_text(swap)
    output = await bash("python3 swap.py")
    assert "inside True refused True" in output.text
    assert everything(outside) == before


async def test_a_root_that_is_swapped_between_commands_is_no_root(
    bash: Bash, folder: Path, outside: Path
) -> None:
    nested = folder / "nested"
    nested.mkdir()
    await bash("touch nested/a", roots=(nested,))
    await bash(f"mv nested away; ln -s {outside} nested", roots=(nested,))
    assert (await bash("touch nested/new", roots=(nested,))).is_error
    assert not (outside / "new").exists()


async def test_the_worker_itself_is_not_confined(bash: Bash, outside: Path) -> None:
    await bash("true")
    (outside / "new").write_text("x")
    await anyio.to_thread.run_sync((outside / "new").unlink)
    assert (await bash(f"touch {outside}/new", unsandboxed=True)).text == "(no output)"
    assert (outside / "new").exists()


async def test_a_command_cannot_look_into_the_worker(bash: Bash) -> None:
    for place in ("cwd", "root", "mem", "fd/0"):
        assert (await bash(f"cat /proc/$PPID/{place} || readlink /proc/$PPID/{place}")).is_error, place
    trace = "import ctypes, os; print(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))"
    assert (await bash(f"exec python3 -c '{trace}'")).text == "-1\n"


ORDINARY = {
    "sh": "echo x > a && echo x >> a && mkdir -p b/c && mv a b/c/ && rm -r b && : > /dev/null",
    "mktemp": 'f=$(mktemp) && echo x > "$f" && case $f in $TMPDIR/*) ;; *) exit 1; esac',
    "bash": "cat <<E > a\n$(seq 100000)\nE\ntest -s a && cat <(echo x) > >(cat)",
    "python3": "python3 -c 'import multiprocessing as m; m.Lock(); import tempfile; tempfile.mkdtemp()'",
    "script": "script -qc 'tty' /dev/null | grep /dev/pts",
    "git": "git init -q . && touch a && git add a && git -c user.name=a -c user.email=a@b commit -qm m"
    " && git checkout -qb c && git mv a b && git stash -q && git status",
    "rg": "echo needle > a && rg needle",
    "node": 'node -e \'require("fs").writeFileSync("a", "x")\'',
    "npm": "npm init -y && npm pack --silent && npm cache add ./*.tgz && ls ~/.npm/_cacache",
    "cc": "echo 'int main(void){return 0;}' > a.c && cc -o a a.c && ./a",
    "make": "printf 'all:\\n\\techo x > made\\n' > Makefile && make && test -f made",
    "terraform": "terraform version && mkdir -p ~/.terraform.d/plugin-cache",
}


@pytest.mark.parametrize("program", ORDINARY)
async def test_ordinary_work_goes_on_in_it(bash: Bash, program: str) -> None:
    if program != "rg" and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    output = await bash(ORDINARY[program])
    assert not output.is_error, output.text


async def test_a_refusal_is_told_with_what_can_be_done(bash: Bash, outside: Path, home: Path) -> None:
    for command in (
        f"touch {outside}/new",
        f'python3 -c \'open("{outside}/new", "w")\'',
        f"cp /etc/hostname {outside}/new; true",
        "cd .. && touch outside/new ./outside/new 2>&1 | sed s,./,../,",
        "echo x > ~/new",
        'node -e \'require("fs").mkdirSync(process.env.HOME + "/new")\'',
    ):
        if shutil.which(command.split()[0]) or command.startswith(("cd", "echo")):
            told = (await bash(command)).text
            assert "the sandbox refused this command" in told, told
            assert "unsandboxed: true" in told


@pytest.mark.parametrize(
    "command",
    [
        "echo 'a: Permission denied'; false",
        "echo 'src/a/b: Permission denied'; false",
        "echo '/no/such/thing exists: No such file'; false",
        "mkdir -m 000 a; echo './a: Permission denied'; false",
        "true",
    ],
)
async def test_what_the_sandbox_did_not_refuse_is_not_laid_to_it(bash: Bash, command: str) -> None:
    assert "sandbox" not in (await bash(command)).text


async def test_a_background_tasks_refusals_are_told_too(
    bash: Bash, context: Callable[..., ToolContext], outside: Path
) -> None:
    started = await bash(f"touch {outside}/new", run_in_background=True)
    around = context()
    task = find_task(around.processes.background, started.raw["taskId"])
    output = await TASK_OUTPUT.run(TaskOutputInput(task_id=task.id, wait=20), around)
    assert "the sandbox refused this command" in output.text
    assert not (outside / "new").exists()


async def test_what_was_permitted_is_writable_for_that_call_alone(bash: Bash, outside: Path) -> None:
    new, full = Access(outside / "new", write=True), Access(outside / "full", write=True)
    assert not (await bash(f"echo x > {outside}/new && rm {outside}/new", permitted=(new,))).is_error
    assert not (await bash(f"mkdir -p {outside}/full/a/b", permitted=(full,))).is_error
    assert (await bash(f"touch {outside}/new", permitted=(full,))).is_error
    assert (await bash(f"touch {outside}/new", permitted=(Access(outside / "new", write=False),))).is_error
    assert (await bash(f"touch {outside}/new {outside}/full/a")).is_error
    deep = Access(outside / "empty" / "x" / "y", write=True)
    assert not (
        await bash(f"mkdir -p {outside}/empty/x && touch {outside}/empty/x/y", permitted=(deep,))
    ).is_error
    assert not (outside / "new").exists()


async def test_settings_extend_it_and_switch_it_off(bash: Bash, outside: Path, home: Path) -> None:
    more = SandboxSetting(writable=(str(outside), "~/notes", str(outside / "no-such-thing")))
    (home / "notes").mkdir()
    assert not (await bash(f"touch {outside}/new ~/notes/new", setting=more)).is_error
    assert (await bash("touch ~/new", setting=more)).is_error
    assert not (await bash(f"touch {outside}/off", setting=SandboxSetting(enabled=False))).is_error


@pytest.mark.skipif(landlock.abi() < landlock.NETWORK, reason="this kernel's Landlock knows no network")
async def test_the_network_is_a_setting(bash: Bash) -> None:
    connect = "exec 3<>/dev/tcp/127.0.0.1/{}"
    listen = "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for command in (connect.replace("{}", port), listen):
            assert not (await bash(command)).is_error
            refused = await bash(command, setting=SandboxSetting(network=False))
            assert refused.is_error
            assert "the sandbox keeps commands from TCP" in refused.text


async def test_without_landlock_commands_run_and_it_is_told_once(
    bash: Bash, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 2)
    output = await bash(f'touch {outside}/new; echo "$TMPDIR"')
    assert not output.is_error
    assert "there is no sandbox" in output.text
    assert (outside / "new").exists()
    assert "sandbox" not in (await bash("true")).text
    off = await bash("true", setting=SandboxSetting(enabled=False))
    assert "sandbox" not in off.text


async def test_a_network_that_cannot_be_kept_from_them_is_told(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 3)
    output = await bash("true", setting=SandboxSetting(network=False))
    assert "commands can reach it" in output.text


async def test_a_sandbox_that_cannot_be_set_up_stops_the_command(
    bash: Bash, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(landlock, "ruleset", refuse)
    with pytest.raises(Exception, match="Too many open files"):
        await bash("touch new")
    assert not (folder / "new").exists()
