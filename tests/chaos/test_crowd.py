"""The counts of chaos: it notices every result that must not occur."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.crowd import PACKAGES, SCRIPT, Asked, Crowd, Hit
from tests.live.harness import Site, until


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    site = Site(tmp_path)
    yield Crowd(site, 0)
    site.close()


def lived(crowd: Crowd, *lines: str) -> None:
    crowd.jobs[1] = Asked("parked", "session", "0", 30)
    (crowd.site.work / "1.life").write_text("".join(f"{line}\n" for line in lines))


def test_steps_lost_are_those_since_the_last_checkpoint(crowd: Crowd) -> None:
    lived(crowd, "start 10.0 0 0 1 7", "saved 11.0 8", "start 20.0 8 12 2 7")
    assert crowd.steps_lost([Hit(1, 15.0, 15.0)]) == (2, 4, [], [])
    assert crowd.steps_lost([Hit(None, 5.0, 12.0)]) == (2, 4, [], []), "a disk that was full while it ran"
    for elsewhere in (Hit(2, 15.0, 15.0), Hit(1, 21.0, 22.0), Hit(1, 5.0, 9.0)):
        assert crowd.steps_lost([elsewhere]).unexplained == [1]


def test_a_job_that_goes_back_behind_its_checkpoint_is_noticed(crowd: Crowd) -> None:
    lived(crowd, "start 10.0 0 0 1 7", "saved 11.0 8", "saved 12.0 12", "start 20.0 8 14 2 7")
    assert crowd.steps_lost([Hit(1, 15.0, 15.0)]).beyond_checkpoint == [1]


def test_another_result_is_noticed_and_so_is_none(crowd: Crowd) -> None:
    alone = subprocess.run(_run(crowd.site, "session"), env=_env(), capture_output=True, text=True, check=True).stdout
    _, steps, result = alone.split()
    assert steps == "30"
    lived(crowd, f"done 1.0 30 {result}", f"done 2.0 30 {result}")
    assert crowd.inexact() == []
    for wrong in (f"done 1.0 30 {result[::-1]}", f"done 1.0 29 {result}", "start 1.0 0 0 1 7"):
        lived(crowd, wrong)
        assert crowd.inexact() == [1]


@pytest.mark.parametrize("sort", ["session", "plain", "bare"])
def test_every_sort_comes_to_the_same(crowd: Crowd, sort: str) -> None:
    said = subprocess.run(_run(crowd.site, sort), env=_env(), capture_output=True, text=True, check=True).stdout
    alone = subprocess.run(_run(crowd.site, "session"), env=_env(), capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == alone.strip()


@pytest.mark.parametrize(("job", "gpu", "held"), [("1", "1", "job-1"), ("2", "0", "gpu-0")])
def test_two_at_the_same_time_are_noticed(crowd: Crowd, job: str, gpu: str, held: str) -> None:
    env = {**_env(), "ROTA_ATTEMPT": "1"}
    first = subprocess.Popen(_run(crowd.site, "bare", pace="60"), env={**env, "ROTA_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "0"})
    try:
        until((crowd.site.work / "1.life").exists, "the first has its locks")
        second = subprocess.run(_run(crowd.site, "bare"), env={**env, "ROTA_JOB_ID": job, "CUDA_VISIBLE_DEVICES": gpu})
    finally:
        first.kill()
        first.wait()
    assert second.returncode == 3
    assert crowd.site.violations().startswith(f"{held} is held by another")


def _run(site: Site, sort: str, pace: str = "0") -> list[str]:
    return [sys.executable, str(SCRIPT), str(site.work), sort, "0", "30", pace]


def _env() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": PACKAGES}
