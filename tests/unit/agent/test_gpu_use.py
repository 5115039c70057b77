"""Attribution of a GPU's utilization and memory to jobs."""

import math
from dataclasses import replace

from rota.agent.gpu_readings import GpuReading
from rota.agent.gpu_use import GpuHolder, gpu_use, holders
from tests.unit.live.test_starts import RUNS

A, B = "GPU-a", "GPU-b"
ONE = GpuHolder((1, 1), "1.1.x", frozenset({A}), works=True)
TWO = GpuHolder((2, 1), "2.1.x", frozenset({A}), works=True)
BUSY = GpuReading(at_s=50.0, used_gib=30.0, utilization=0.9, processes={7: 10.0, 8: 5.0, 9: 1.0})
OWNERS = {7: "1.1.x", 8: "1.1.x", 9: "2.1.x"}


def owner(pid: int) -> str:
    return OWNERS.get(pid, "")


def test_alone_it_has_what_its_processes_have() -> None:
    found = gpu_use([ONE], {A: replace(BUSY, processes={7: 10.0, 8: 5.0})}, owner)
    assert found == {(1, 1): (50.0, 0.9, 15.0)}


def test_a_parked_neighbour_keeps_memory_and_does_nothing() -> None:
    found = gpu_use([ONE, TWO._replace(works=False)], {A: BUSY}, owner)
    assert found == {(1, 1): (50.0, 0.9, 15.0)}


def test_two_that_work_together_have_memory_each_and_nobody_knows_who_is_busy() -> None:
    found = gpu_use([ONE, TWO], {A: BUSY}, owner)
    assert {key: use.gib for key, use in found.items()} == {(1, 1): 15.0, (2, 1): 1.0}
    assert all(math.isnan(use.utilization) for use in found.values())


def test_a_stranger_on_the_gpu_may_be_the_busy_one() -> None:
    use = gpu_use([ONE], {A: replace(BUSY, processes={7: 10.0, 99: 4.0})}, owner)[1, 1]
    assert math.isnan(use.utilization) and use.gib == 10.0


def test_in_a_container_all_that_is_used_is_its_own_if_it_works_alone() -> None:
    for processes in (None, {}, {123: 9.0}, {7: None}):
        use = gpu_use([ONE, TWO._replace(works=False)], {A: replace(BUSY, processes=processes)}, owner)[1, 1]
        assert (use.utilization, use.gib) == (0.9, 30.0), processes
    for use in gpu_use([ONE, TWO], {A: replace(BUSY, processes=None)}, owner).values():
        assert math.isnan(use.utilization) and math.isnan(use.gib)


def test_of_several_gpus_the_mean_and_the_most() -> None:
    gang = ONE._replace(gpus=frozenset({A, B}))
    other = GpuReading(at_s=49.0, used_gib=12.0, utilization=0.5, processes={8: 12.0})
    assert gpu_use([gang], {A: replace(BUSY, processes={7: 10.0}), B: other}, owner) == {(1, 1): (49.0, 0.7, 12.0)}
    assert gpu_use([gang], {A: BUSY}, owner) == {}, "the other GPU was not read"
    type_agnostic = replace(other, utilization=None, used_gib=None, processes=None)
    use = gpu_use([gang], {A: BUSY, B: type_agnostic}, owner)[1, 1]
    assert math.isnan(use.utilization) and math.isnan(use.gib)


def test_gpus_by_the_number_that_the_job_was_given() -> None:
    environments = {
        (1, 1): {"CUDA_VISIBLE_DEVICES": "0,2", "ROTA_LIFE": "1.1.x"},
        (2, 1): {"CUDA_VISIBLE_DEVICES": "2", "ROTA_LIFE": "2.1.x"},
        (3, 1): {"CUDA_VISIBLE_DEVICES": "0"},
    }
    there = [RUNS, RUNS._replace(job=2, state="parked"), RUNS._replace(job=3, state="ended")]
    found = holders(there, lambda job, attempt: environments[job, attempt], {0: A, 2: B})
    assert found == [
        GpuHolder((1, 1), "1.1.x", frozenset({A, B}), works=True),
        GpuHolder((2, 1), "2.1.x", frozenset({B}), works=False),
    ]
