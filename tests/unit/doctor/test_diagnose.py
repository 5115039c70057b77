"""A check that fails itself, limits, and packages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.doctor import diagnose as diagnose_module
from rota.doctor import machine_checks
from rota.doctor.diagnose import diagnose
from rota.doctor.diagnosis import Diagnosis


def test_a_check_that_fails_itself_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(home: Path) -> Iterator[Diagnosis]:
        raise ZeroDivisionError("by zero")
        yield

    monkeypatch.setattr(diagnose_module, "check_home", broken)
    monkeypatch.setattr(diagnose_module, "check_ray", lambda: ())  # clusters of other tests may run here
    found = list(diagnose(tmp_path))
    (failed,) = (each for each in found if each.state == "fail")
    assert failed.check == "home" and "ZeroDivisionError" in failed.found and failed.next
    assert {"Python", "scheduler", "NVML"} <= {each.check for each in found}


@pytest.mark.parametrize(
    ("limits", "state", "expected"),
    [
        ((256, 1024), "warn", "ulimit -n 1024"),
        ((256, -1), "warn", "ulimit -n 4096"),
        ((256, 256), "warn", "LimitNOFILE"),
        ((-1, -1), "ok", ""),
    ],
)
def test_open_files(monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], state: str, expected: str) -> None:
    monkeypatch.setattr(machine_checks.resource, "getrlimit", lambda which: limits)
    (files,) = (each for each in machine_checks.check_limits() if each.check == "open files")
    assert files.state == state and expected in files.next


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "requires", lambda name: ["numpy>=2", "telepathy>=1,<2", "torch; extra == 'torch'"])
    *_, packages = machine_checks.check_packages()
    assert packages.state == "fail" and packages.found == "telepathy not installed" and "pip install telepathy" in packages.next
