"""A scheduler for the commands that talk to one."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.cli import job_text
from rota.cli.main import main
from tests.unit.server.standin import Served, serve

Rota = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def served(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    server.daemon.reset()
    monkeypatch.setenv("ROTA_HOME", str(server.home))
    monkeypatch.setenv("LOGNAME", "ana")
    job_text._me.cache_clear()
    monkeypatch.chdir(tmp_path)
    return server


@pytest.fixture
def rota(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rota:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rota", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run
