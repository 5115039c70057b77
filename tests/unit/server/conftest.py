"""Servers for the tests of the API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.server import changes
from tests.unit.server.standin import Served, serve


@pytest.fixture(autouse=True)
def endless_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that waits for a change waits until there is one, on a machine of any speed."""
    monkeypatch.setattr(changes, "MAX_WAIT_SECONDS", float("inf"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def served(server: Served) -> Served:
    """A server with no jobs; for what depends on the number of changes, take a fresh one."""
    server.daemon.reset()
    return server


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as found:
        yield found
