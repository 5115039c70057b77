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


@pytest.mark.parametrize(
    ("when", "ends", "begins", "wrong"),
    [
        ("ok", "finished", "20.5", []),
        ("ok", "finished", "19.5", [2]),
        ("ok", "failed", "20.5", [2]),
        ("failed", "failed", "20.5", []),
        ("failed", "finished", "20.5", [2]),
        ("ended", "failed", "20.5", []),
        ("ended", "cancelled", "9.5", [2]),
    ],
)
def test_a_job_that_starts_before_another_has_ended_as_it_must_is_noticed(
    crowd: Crowd, when: str, ends: str, begins: str, wrong: list[int]
) -> None:
    lived(crowd, "start 10.0 0 0 1 7", "saved 20.0 8")
    crowd.jobs = {1: crowd.jobs[1]._replace(ends=ends), 2: crowd.jobs[1]._replace(after=((1, when),))}
    assert crowd.started_too_early() == [], "it never started"
    (crowd.site.work / "2.life").write_text(f"start {begins} 0 0 1 8\n")
    assert crowd.started_too_early() == wrong


def test_a_job_that_starts_though_another_never_did_is_noticed(crowd: Crowd) -> None:
    lived(crowd, "start 10.0 0 0 1 7")
    crowd.jobs = {2: crowd.jobs[1], 1: crowd.jobs[1]._replace(after=((2, "ok"),))}
    assert crowd.started_too_early() == [1]


def test_one_task_more_than_the_limit_is_noticed(crowd: Crowd) -> None:
    env = {**_env(), "ROTA_ATTEMPT": "1", "ROTA_ARRAY_ID": "7", "CHAOS_AT_ONCE": "1"}
    first = subprocess.Popen(_run(crowd.site, "plain", pace="60"), env={**env, "ROTA_JOB_ID": "8", "CUDA_VISIBLE_DEVICES": "0"})
    try:
        until((crowd.site.work / "8.life").exists, "the first has its locks")
        second = subprocess.run(_run(crowd.site, "plain"), env={**env, "ROTA_JOB_ID": "9", "CUDA_VISIBLE_DEVICES": "1"})
    finally:
        first.kill()
        first.wait()
    assert second.returncode == 3 and crowd.site.violations() == ""
    assert crowd.notes("over_limit") == ["1 tasks of array 7 run while job 9 attempt 1 begins"]


def test_a_job_that_is_to_fail_does_so_each_time_and_explains_the_steps_that_it_loses(crowd: Crowd) -> None:
    env = {**_env(), "ROTA_ATTEMPT": "1", "ROTA_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "0"}
    for _ in range(2):
        assert subprocess.run(_run(crowd.site, "fails"), env=env, capture_output=True).returncode == 3
    crowd.jobs[1] = Asked("flow", "fails", "0", 30, "failed")
    assert crowd.steps_lost([]) == (2, 4, [], []) and crowd.inexact() == []


def _run(site: Site, sort: str, pace: str = "0") -> list[str]:
    return [sys.executable, str(SCRIPT), str(site.work), sort, "0", "30", pace]


def _env() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": PACKAGES}
