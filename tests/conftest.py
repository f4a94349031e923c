"""Fixtures of the whole suite."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psutil
import pytest

from shared.journal import Journal
from tests.leaks import Snapshot, adopt_nobody, left

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    """Markers that the fixtures here know."""
    config.addinivalue_line(
        "markers", "may_leak: not failed for threads, processes or descriptors that it leaves behind"
    )


def pytest_make_parametrize_id(val: object) -> str | None:
    """A test's name must be text that can be sent: xdist's processes tell each other by name."""
    return ascii(val) if isinstance(val, str) and not val.isascii() else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test's report, as its name: what was captured may hold half characters, which cannot be sent."""
    report = yield
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    if report.longrepr is not None and _sendable(text := str(report.longrepr)) != text:
        report.longrepr = _sendable(text)
    return report


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.fixture
def anyio_backend() -> str:
    """The product runs on anyio's asyncio backend; so do its tests."""
    return "asyncio"


@pytest.fixture(autouse=True)
def journals_are_closed(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A journal holds its file for as long as its process lives; here one process stands for many."""
    made: list[Journal] = []
    init = Journal.__init__

    def tracked(journal: Journal, path: Path) -> None:
        init(journal, path)
        made.append(journal)

    monkeypatch.setattr(Journal, "__init__", tracked)
    yield
    for journal in made:
        journal.close()


@pytest.fixture(autouse=True)
def nothing_is_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Fails a test that leaves a thread, a process or a descriptor behind, and ends the processes.

    What fixtures of a wider scope hold was there before the test and is theirs.
    """
    if request.node.get_closest_marker("may_leak") is not None:
        adopt_nobody()
        yield
        return
    adopt_nobody()
    before = Snapshot.take()
    yield
    found, processes = left(before, tmp_path_factory.getbasetemp().resolve())
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
            process.wait(5)
    if found:
        pytest.fail(f"The test left behind: {'; '.join(found)}.", pytrace=False)
