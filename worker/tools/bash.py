"""`bash`: run a shell command and give what it printed, how it ended, and what it left running."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
from anyio import to_thread
from pydantic import Field

from worker.background import BackgroundTask
from worker.capture import Capture, spill_path
from worker.exits import describe_exit, exit_code
from worker.sandbox_refusals import explain
from worker.tools.base import Tool, ToolError, ToolInput, ToolOutput
from worker.tools.editor_terminal import run_in_terminal

if TYPE_CHECKING:
    from worker.child import Child, Ended
    from worker.sandbox import Confinement
    from worker.tools.base import ToolContext

DEFAULT_TIMEOUT: Final = 120.0
"""Seconds."""

_FRAME: Final = 0.1
"""Seconds between two views of a running command's output."""
_SHELL: Final = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"

# Programs must neither page, ask, open an editor nor colour: nobody is at the terminal, there is none.
_ENVIRONMENT: Final = {
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER", "GH_PAGER"), "cat"),
    "AWS_PAGER": "",
    # `true` takes a message as git proposes it (amend, merge, rebase) and fails on an empty one.
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), "true"),
    # Editors set programs that ask in a window of theirs. Empty is not the same as unset: git would go on
    # to its setting core.askPass, and an ssh that does not know _REQUIRE to a path it was built with.
    **dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS"), ""),
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TF_INPUT": "0",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
# The rest would let a command mean other files than it seems to: `cd` elsewhere, patterns that match more.
_WITHOUT: Final = frozenset(
    ("FORCE_COLOR", "CLICOLOR_FORCE", "PROMPT_COMMAND", "CDPATH", "OLDPWD", "BASHOPTS", "SHELLOPTS")
)


class BashInput(ToolInput):
    """What the model gives."""

    command: Annotated[str, Field(min_length=1, description="The command, for bash -c.")]
    timeout: Annotated[
        float | None,
        Field(
            gt=0,
            allow_inf_nan=False,
            description="Seconds, 120 if not given; at most 600, if the user has not set it.",
        ),
    ] = None
    run_in_background: Annotated[
        bool,
        Field(description="Return at once with a task id, for task_output and task_stop. No time-out."),
    ] = False
    description: Annotated[str | None, Field(description="What it does, in a few words.")] = None
    unsandboxed: Annotated[
        bool,
        Field(
            description="Run it without the sandbox. Only after a result said that the sandbox refused "
            "something that is needed; the user is always asked."
        ),
    ] = False


class Bash(Tool[BashInput]):
    """Runs commands. See `worker.tools.processes` for how they are ended."""

    name = "bash"
    kind = "execute"
    description = (
        "Run a shell command in the session's folder. Each call is a new shell: `cd` and variables do not "
        "last. There is no terminal and no input. A call ends with its shell; what it leaves running is "
        "ended too, so start servers and the like with run_in_background. Long output is cut in the middle; "
        "the whole of it is then in a file that the result names."
    )
    Input = BashInput

    def title(self, args: BashInput) -> str:
        """The command's first line."""
        first, *more = args.command.strip().splitlines() or [""]
        if len(first) > 120 or more:
            first = f"{first[:119]}…"
        return f"`{first}`" if "`" not in first else first

    async def crosses(self, args: BashInput) -> str | None:
        """That it would run without the sandbox."""
        return "it would run without the sandbox and may write wherever you may" if args.unsandboxed else None

    async def run(self, args: BashInput, context: ToolContext) -> ToolOutput:
        """Start the shell, and unless it goes to the background wait for it."""
        capture = Capture(spill_path(context.session_dir, context.call_id))
        limit = min(args.timeout or DEFAULT_TIMEOUT, context.processes.longest)
        ours = _ENVIRONMENT | _of_git(context.environment.get("GIT_CONFIG_COUNT", ""))
        environment = {k: v for k, v in context.environment.items() if k not in _WITHOUT} | ours
        sandbox, confined = context.sandbox, None
        unconfined = args.unsandboxed or sandbox is None or not sandbox.active
        show = context.show_terminal
        if show is not None and unconfined and not args.run_in_background:
            ran = await run_in_terminal([_SHELL, "-c", args.command], ours, limit, context, show)
            if ran is not None:
                return _result(*ran, limit, context.processes.longest, [])
        try:
            async with contextlib.AsyncExitStack() as confining:
                if sandbox is not None:
                    environment |= sandbox.environment()
                    confined = await confining.enter_async_context(
                        sandbox.confine(context.permitted, unsandboxed=args.unsandboxed)
                    )
                child = context.processes.start(
                    [_SHELL, "-c", args.command],
                    cwd=context.cwd,
                    environment=environment,
                    receive=capture.feed,
                    finish=capture.finish,
                    timeout=None if args.run_in_background else limit,
                    background=args.run_in_background,
                    rules=confined.rules if confined is not None else None,
                )
        except (OSError, ValueError) as e:
            raise ToolError(_cannot_start(e, context.cwd)) from e
        if args.run_in_background:
            return _to_background(args, child, capture, context, confined)
        async with anyio.create_task_group() as showing:
            showing.start_soon(_show, capture, context)
            ended = await context.processes.wait(child)
            showing.cancel_scope.cancel()
        text = capture.text()
        notes = sandbox.shortcomings() if sandbox is not None else []
        if confined is not None and text:
            failed = ended.returncode != 0
            notes += await to_thread.run_sync(explain, text, confined, context.cwd, failed)
        return _result(text, ended, limit, context.processes.longest, notes)


async def _show(capture: Capture, context: ToolContext) -> None:
    # A task of its own: a client that does not read must not hold up the command.
    while True:
        await anyio.sleep(_FRAME)
        await capture.changed.wait()
        capture.changed = anyio.Event()
        await context.progress(capture.text())


def _of_git(count: str) -> dict[str, str]:
    """A setting of git beside the `count` that the environment has: a project may hold a folder that is a
    repository by its contents, whose settings run programs, and `git status` in it looks harmless."""
    number = int(count) if count.isdecimal() else 0
    return {
        "GIT_CONFIG_COUNT": str(number + 1),
        f"GIT_CONFIG_KEY_{number}": "safe.bareRepository",
        f"GIT_CONFIG_VALUE_{number}": "explicit",
    }


def _to_background(
    args: BashInput,
    child: Child,
    capture: Capture,
    context: ToolContext,
    confined: Confinement | None,
) -> ToolOutput:
    task = BackgroundTask(f"task-{secrets.token_hex(3)}", args.command, child, capture, context.cwd, confined)
    context.processes.background[task.id] = task
    return ToolOutput(
        f"Started in the background as {task.id} (pid {child.pid}). See its output with task_output, "
        "end it with task_stop; it ends with the session.",
        raw={"taskId": task.id, "pid": child.pid},
    )


def _result(output: str, ended: Ended, limit: float, longest: float, more: list[str]) -> ToolOutput:
    notes = []
    if ended.timed_out:
        longer = f"give a longer timeout (at most {longest:g} s) or " if limit < longest else ""
        notes.append(f"timed out after {limit:g} s and was ended; {longer}use run_in_background")
    how = describe_exit(ended)
    if how:
        notes.append(how)
    if ended.left and not ended.timed_out and ended.memory is None:
        notes.append(
            f"{ended.left} process{'es' if ended.left > 1 else ''} that it left running ended with it; "
            "use run_in_background for what should go on"
        )
    notes += more
    text = output
    if notes:
        text += "" if not text or text.endswith("\n") else "\n"
        text += "\n".join(f"[{note}]" for note in notes)
    code = exit_code(ended.returncode)
    raw: dict[str, object] = {"exitCode": code, "output": output}
    if ended.timed_out:
        raw["timedOut"] = True
    if ended.memory is not None:
        raw |= {"killedAtMemory": ended.memory, "error": how}
    # Any other exit code than 0 is a failure, `grep` without a match too: what a code means is the
    # program's own affair, and a guess that hides a failure costs more than one that shows none.
    failed = code != 0 or ended.timed_out or ended.memory is not None
    return ToolOutput(text or "(no output)", is_error=failed, raw=raw)


def _cannot_start(error: OSError | ValueError, cwd: Path) -> str:
    if isinstance(error, ValueError):
        return f"The command cannot be run: {error}. Write it without NUL bytes and lone surrogates."
    if not os.access(cwd, os.X_OK):
        return f"The command cannot be run: the session's folder {cwd} is gone or may not be entered."
    return (
        f"The command cannot be run: {error.strerror}. If it is very long, write it to a script and run that."
    )


TOOL = Bash()
