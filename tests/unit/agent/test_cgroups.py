"""CPUs and host memory of jobs. The files of cgroup v2 are written into a folder; only a kernel enforces them."""

import os
from pathlib import Path

import pytest

from rota.agent import cgroups
from rota.agent.cgroups import CONTROLLERS, PARENT, PROCS, SUBTREE, CgroupLimits
from rota.agent.constants import ATTEMPT_ID, CPU_WEIGHT, CPUS, MEMORY_GIB


def group(folder: Path, controllers: str = "cpu memory pids", subtree: str = "cpu memory") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((CONTROLLERS, controllers), (SUBTREE, subtree), (PROCS, "")):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A group of the supervisor, below one that is writable and has the controllers, with the group of all jobs made before."""
    service = group(tmp_path / "cgroup" / "service")
    group(service / PARENT)
    found = group(service / "scheduler", controllers="pids")
    monkeypatch.setattr(cgroups, "own_group", lambda: found)
    return found


def test_a_job_starts_in_its_group_and_the_supervisor_goes_back(own: Path) -> None:
    env = {CPU_WEIGHT: "400", CPUS: "2.5", MEMORY_GIB: "64", ATTEMPT_ID: "life-1"}
    mine = own.parent / PARENT / "life-1"
    with cgroups.limited(env) as problem:
        assert problem is None
        assert {
            file: (mine / file).read_text() for file in ("cpu.weight", "cpu.max", "memory.max", "memory.oom.group", PROCS)
        } == {
            "cpu.weight": "400",
            "cpu.max": "250000 100000",
            "memory.max": str(64 * 2**30),
            "memory.oom.group": "1",
            PROCS: "0",
        }
        assert (own / PROCS).read_text() == ""
    assert (own / PROCS).read_text() == "0"


def test_without_limits_a_job_has_a_share_by_its_gpus(own: Path) -> None:
    with cgroups.limited({CPU_WEIGHT: "50", ATTEMPT_ID: "a"}) as problem:
        assert problem is None
    assert (own.parent / PARENT / "a" / "cpu.weight").read_text() == "50"
    assert not (own.parent / PARENT / "a" / "cpu.max").exists()


def test_groups_of_jobs_that_have_ended_are_removed(own: Path) -> None:
    empty, busy = own.parent / PARENT / "ended", own.parent / PARENT / "busy"
    empty.mkdir()
    busy.mkdir()
    (busy / PROCS).write_text("7")  # a folder with files is not removed, nor is a group with processes
    with cgroups.limited({ATTEMPT_ID: "a"}):
        assert not empty.exists() and busy.exists()


@pytest.mark.parametrize(
    ("env", "told"), [({}, False), ({CPU_WEIGHT: "100"}, False), ({CPUS: "1"}, True), ({MEMORY_GIB: "1"}, True)]
)
def test_where_there_is_no_group_the_job_starts_all_the_same(
    env: dict[str, str], told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "own_group", lambda: None)
    with cgroups.limited(env) as problem:
        assert (problem is not None) == told
        assert not told or problem == "its CPUs and memory are not limited: the machine has no cgroup v2"
    assert cgroups.problem() == "the machine has no cgroup v2"
    alone = group(tmp_path / "alone", controllers="hugetlb")
    monkeypatch.setattr(cgroups, "own_group", lambda: alone)
    assert cgroups.problem() == "no group above the scheduler has the controllers"


def test_errors_of_the_start_are_passed_on(own: Path) -> None:
    with pytest.raises(RuntimeError, match="not started"), cgroups.limited({ATTEMPT_ID: "a"}):
        raise RuntimeError("not started")
    assert (own / PROCS).read_text() == "0"


def test_texts_that_are_not_numbers_limit_nothing() -> None:
    assert CgroupLimits.of({CPU_WEIGHT: "much", CPUS: "-1", MEMORY_GIB: "nan"}) == CgroupLimits(100, None, None)
    assert CgroupLimits.of({CPU_WEIGHT: "999999", CPUS: "0.001"}).files() == {"cpu.weight": "10000", "cpu.max": "1000 100000"}


def test_the_group_of_this_process_is_found_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    (tmp_path / "cgroup").write_text("3:cpuset:/\n0::/user.slice/rota.service\n")
    assert cgroups.own_group(tmp_path) == Path("/sys/fs/cgroup/user.slice/rota.service")
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    assert cgroups.own_group(tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0 or cgroups.problem() != "", reason="this process may not make groups with controllers")
def test_a_real_group_limits_a_real_process() -> None:
    import subprocess

    env = {CPU_WEIGHT: "200", CPUS: "1", MEMORY_GIB: "1", ATTEMPT_ID: f"test-{os.getpid()}"}
    with cgroups.limited(env) as problem:
        assert problem is None
        with subprocess.Popen(["cat", "/proc/self/cgroup"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and f"test-{os.getpid()}" in process.stdout.read()
