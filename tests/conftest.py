"""What a test needs is marked by where it is, files run in an order that keeps all cores busy, and a test with real processes
may fail once.

Tests with real processes mostly wait, and others keep a core busy. `make test` gives out whole files, in turns of both sorts, and
those that take long first.

If a test with real processes fails, it is run once more, since the machine may have been busy. The run names each of those tests
and says why it failed. More than `MAX_RETRIES` of them fail the run: then something is wrong, and not the machine.
"""

import functools
import importlib.util
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from tests.examples import DEFAULT

# Threads of PyTorch and BLAS spin while they wait for each other. Several workers share the cores already.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Configuration files of the person who runs the tests must not change what they test.
os.environ["ROTA_CONFIG"] = os.devnull

settings.register_profile("rota", DEFAULT)
settings.load_profile("rota")

NEEDS: dict[str, tuple[str, ...]] = {
    "tests/browser/": ("process", "browser"),
    "tests/chaos/": ("process",),
    "tests/chaos/test_ray_chaos.py": ("ray",),
    "tests/docs/test_first_jobs.py": ("process",),
    "tests/docs/test_newcomer.py": ("process", "torch"),
    "tests/docs/test_training_page.py": ("process", "torch"),
    "tests/live/": ("process",),
    "tests/live/test_ray": ("process", "ray"),
    "tests/live/test_ray_standby.py": ("process", "ray", "postgres"),
    "tests/live/test_resize.py": ("process", "torch"),
    "tests/live/test_standby.py": ("process", "postgres"),
    "tests/live/test_stored.py": ("process", "torch"),
    "tests/live/test_sweep_ray.py": ("process", "ray"),
    "tests/live/test_training.py": ("process", "torch"),
    "tests/live/train/test_torch.py": ("process", "torch"),
    "tests/packaging/": ("process",),
    "tests/unit/agent/test_driver_checkpoint.py": ("process",),
    "tests/unit/agent/test_gpu_lock.py": ("process",),
    "tests/unit/agent/test_other_programs.py": ("process",),
    "tests/unit/agent/test_processes.py": ("process",),
    "tests/unit/cli/test_live_commands.py": ("process",),
    "tests/unit/live/test_election.py": ("postgres",),
    "tests/unit/live/test_postgres_store.py": ("postgres",),
    "tests/unit/ray/test_channel.py": ("process",),
    "tests/unit/train/test_agreement.py": ("process",),
    "tests/unit/train/test_frameworks.py": ("process",),
    "tests/unit/train/test_session.py": ("process",),
    "tests/unit/train/test_object_checkpoints.py": ("process",),
}
"""Marks by path; a path may match several rows, and has the marks of all."""
PACKAGES = ("ray", "torch")
"""Marks that are names of packages. Where a package is missing, its tests are skipped."""
MAX_RETRIES = 2
RETRIED = "retried"
"""The outcome of a first try that failed."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = f"/{item.path.as_posix()}"
        for place, marks in NEEDS.items():
            if f"/{place}" in path:
                for mark in marks:
                    item.add_marker(mark)
                    if mark in PACKAGES and not _is_installed(mark):
                        item.add_marker(pytest.mark.skip(reason=f"{mark} is not installed: make install-{mark}"))
    items[:] = in_turns(items)


@functools.cache
def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def in_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests by file: files that wait for processes and files that compute in turns, then files without a slow test."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting, computing, fast = [], [], []
    for tests in files.values():
        marks = {mark.name for test in tests for mark in test.iter_markers()}
        (waiting if "process" in marks else computing if "slow" in marks else fast).append(tests)
    turns = [tests for pair in itertools.zip_longest(waiting, computing, fillvalue=[]) for tests in pair]
    return [test for tests in [*turns, *fast] for test in tests]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker("process") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports):
        for report in reports:
            if report.failed:
                report.outcome = RETRIED  # type: ignore[assignment]
                item.ihook.pytest_runtest_logreport(report=report)
        item._initrequest()  # type: ignore[attr-defined]  # what the first try made for itself is gone
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (RETRIED, "R", "RETRIED") if report.outcome == RETRIED else None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """On the process that has all reports. With xdist that is not one of the workers."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, TerminalReporter) and len(_retried(reporter)) > MAX_RETRIES and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    retried = _retried(terminalreporter)
    for name, report in retried.items():
        terminalreporter.section(f"failed, then run once more: {name}")
        terminalreporter.line(report.longreprtext)
    if len(retried) > MAX_RETRIES:
        terminalreporter.section("too many retries")
        terminalreporter.line(f"{len(retried)} tests passed only when they were run once more; at most {MAX_RETRIES} may.")


def _retried(reporter: TerminalReporter) -> dict[str, pytest.TestReport]:
    return {report.nodeid: report for report in reporter.stats.get(RETRIED, [])}


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can enter. Those of pytest are closed to them, again and again by every run that begins."""
    folder = Path(tempfile.mkdtemp(prefix="rota-public-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
