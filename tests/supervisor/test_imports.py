"""Who imports whom. A front that loaded a model's SDK would start seconds later, and hold 78 MB for it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
MAY_IMPORT: Final = {
    "shared": {"shared"},
    "supervisor": {"shared", "supervisor"},
    "worker": {"shared", "worker"},
}
OURS: Final = {*MAY_IMPORT, "tests", "ops"}
NEVER_IN_FRONT: Final = ("anthropic", "mcp", "acp")
SOURCES: Final = [
    pytest.param(path, id=str(path.relative_to(ROOT)))
    for package in MAY_IMPORT
    for path in sorted((ROOT / package).rglob("*.py"))
]


def imported(path: Path) -> set[str]:
    """The top packages that a file imports anywhere: at its top, in a function, for type checking only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import(names=names):
                found |= {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition(".")[0])
            case ast.ImportFrom(level=level) if level:
                found.add(path.relative_to(ROOT).parts[0])
            case _:
                pass
    return found


@pytest.mark.parametrize("path", SOURCES)
def test_a_package_imports_of_ours_only_what_it_may(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert imported(path) & OURS <= MAY_IMPORT[package]
    if package != "worker":
        assert imported(path).isdisjoint(NEVER_IN_FRONT)


def loaded_by(*modules: str) -> set[str]:
    """The top packages that are loaded once `module` was imported in a fresh interpreter."""
    script = (
        f"import {', '.join(modules)}, json, sys\n"
        "print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], cwd=ROOT, capture_output=True, env=_env())
    assert done.returncode == 0, done.stderr.decode()
    return set(json.loads(done.stdout))


def _env() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize("module", ["supervisor.acp", "supervisor.server", "supervisor.cli.main"])
def test_the_front_loads_no_sdk_and_no_worker(module: str) -> None:
    loaded = loaded_by(module)
    assert module.partition(".")[0] in loaded
    assert loaded.isdisjoint({*NEVER_IN_FRONT, "worker", "httpx", "httpx2", "tree_sitter"})


def test_initialize_is_answered_before_anything_heavy_is_loaded() -> None:
    heavy = {"zmq", "pydantic", "psutil", "rich", "prompt_toolkit"}
    assert loaded_by("supervisor.acp").isdisjoint(heavy)
    assert loaded_by("supervisor.greeting", "supervisor.pipe").isdisjoint(
        {*heavy, "anyio", "asyncio", "pydantic_core", "logging"}
    )


def test_a_worker_loads_no_front() -> None:
    assert "supervisor" not in loaded_by("worker.main")
