"""Tests of live schedulers come first: they mostly wait, and beside them others keep the cores busy.

A test with real processes that fails is run once more, since it may fail because the machine is busy. The run says which those
were, and why. A test that fails twice has failed.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

REAL_PROCESSES = (
    "tests/live/",
    "tests/unit/live/",
    "tests/unit/agent/",
    "tests/unit/server/",
    "tests/unit/train/",
    "tests/browser/",
    "tests/docs/test_newcomer.py",
    "tests/docs/test_training_page.py",
)
AGAIN = "again"
"""The outcome of a first try that failed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "tests/live/" not in item.path.as_posix())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not any(part in item.path.as_posix() for part in REAL_PROCESSES):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports):
        for report in reports:
            if report.failed:
                report.outcome = AGAIN  # type: ignore[assignment]
                item.ihook.pytest_runtest_logreport(report=report)
        item._initrequest()  # type: ignore[attr-defined]  # what the first try made for itself is gone
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (AGAIN, "A", "AGAIN") if report.outcome == AGAIN else None


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    for report in terminalreporter.stats.get(AGAIN, []):
        terminalreporter.section(f"failed, and run again: {report.nodeid}")
        terminalreporter.line(report.longreprtext)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can enter. Those of pytest are closed to them, again and again by every run that begins."""
    folder = Path(tempfile.mkdtemp(prefix="rota-public-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
