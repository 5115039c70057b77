"""`rota policy check` for placers."""

from pathlib import Path

import pytest

from rota.api import check
from rota.compose.registry import PLACERS, is_placer
from tests.examples import scaled
from tests.unit.cli.test_bad_input import rota

pytestmark = pytest.mark.slow

MINE = """import numpy as np


class Mine:
    sticky = False

    def keeps_together(self, request):
        return False

    def place(self, view, requests):
        answer = []
        for request in requests:
            free = np.flatnonzero(view.available & (view.cluster.gpu_pool == request.pool))
            {pick}
            view.available[gpus] = False
            answer.append(gpus)
        return answer
"""


def mine(folder: Path, pick: str) -> str:
    path = folder / "mine.py"
    path.write_text(MINE.format(pick=pick))
    return f"{path}:Mine"


@pytest.mark.parametrize("name", PLACERS)
def test_every_built_in_placer_keeps_the_rules(name: str) -> None:
    assert is_placer(name)
    findings = check(name, seeds=scaled(3))
    assert len(findings) == 5 and [finding for finding in findings if not finding.holds] == []


def test_a_placer_of_ones_own_that_is_sound(tmp_path: Path) -> None:
    path = mine(tmp_path, "gpus = free[: request.gpus]")
    assert is_placer(path) and is_placer(path.partition(":")[0])
    assert all(finding.holds for finding in check(path, seeds=scaled(3)))


@pytest.mark.parametrize(
    ("pick", "broken", "story"),
    [
        ("gpus = free[: request.gpus - 1]", "each request gets its number of GPUs", "requested"),
        ("gpus = free[: request.gpus][::-1]", "each request gets its number of GPUs", "not sorted"),
        ("gpus = np.arange(request.gpus)", "GPUs are free, of the right pool, and given once", "which"),
        ("gpus = np.sort(np.random.permutation(free)[: request.gpus])", "the same view gives the same answer", "two answers"),
        ("gpus = 1 / 0", "every job ends", "raised ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_a_placer_is_found(tmp_path: Path, pick: str, broken: str, story: str) -> None:
    findings = {finding.name: finding for finding in check(mine(tmp_path, pick), seeds=scaled(3))}
    assert not findings[broken].holds and story in findings[broken].story


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, out, _ = rota(capsys, monkeypatch, "policy", "check", "packed:sticky=false", "--seeds", "2")
    assert code == 0 and out.endswith("5 of 5 properties hold over 2 workloads.\n")
    code, out, _ = rota(capsys, monkeypatch, "policy", "check", mine(tmp_path, "gpus = np.arange(request.gpus)"), "--seeds", "2")
    assert code == 1 and "FAIL  GPUs are free" in out
    code, _, err = rota(capsys, monkeypatch, "policy", "check", "packd")
    assert code == 2 and "No policy 'packd'" in err


def test_policies_are_still_policies() -> None:
    assert not is_placer("fifo") and not is_placer("tiresias:promote=8") and not is_placer("nope")
    assert len(check("fifo", seeds=1)) > 5
