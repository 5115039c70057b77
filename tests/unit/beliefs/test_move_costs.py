"""The cost of stopping and starting a job, by its memory."""

import pytest

from rota.beliefs.move_costs import DRIVER_CHECKPOINT, LINK_SPEED, MoveCosts
from rota.errors import OptionError
from rota.model.job import JobSpec

PLAIN = MoveCosts(5.0, 6.0, 3.0)
BY_MEMORY = MoveCosts(5.0, 6.0, 3.0, memory=LINK_SPEED)


def test_a_job_of_which_nothing_is_known_pays_the_usual_price() -> None:
    assert PLAIN.move_of(JobSpec()) == BY_MEMORY.move_of(JobSpec()) == 14.0
    assert PLAIN.move_of(JobSpec(least_gib=20.0)) == 14.0, "where memory costs nothing, it makes no difference"


def test_the_costs_are_those_that_were_measured() -> None:
    """20 GiB on an H200: 0.69 to 0.87 s and 0.51 s at the speed of the link, 14 to 17 s the first time; 13.1 and 4.4 s by the
    driver's checkpoint; 4 GiB in 5.8 s to a file and back in 3.3 s."""
    job = JobSpec(least_gib=20.0)
    assert 0.69 <= BY_MEMORY.park_of(job) <= 0.87 and 14.0 <= BY_MEMORY.park_of(job, first=True) <= 17.0
    assert BY_MEMORY.resume_of(job) == pytest.approx(0.51, abs=0.02)
    driver = MoveCosts(memory=DRIVER_CHECKPOINT)
    assert driver.park_of(job) == pytest.approx(13.1, rel=0.1) and driver.resume_of(job) == pytest.approx(4.4, rel=0.1)
    assert BY_MEMORY.save_of(JobSpec(least_gib=4.0)) == pytest.approx(5.8)
    assert BY_MEMORY.load_of(JobSpec(least_gib=4.0)) == pytest.approx(3.3, rel=0.01)


def test_a_job_holds_a_tenth_of_the_most_it_takes_unless_it_says() -> None:
    assert JobSpec(gpu_gib=10.0).resident_gib == 1.0 and JobSpec(gpu_gib=10.0, least_gib=4.0).resident_gib == 4.0
    assert JobSpec(gpus=4, gpu_gib=10.0).host_gib == 4.0 and JobSpec(gpu_gib=10.0, parked_gib=7.0).host_gib == 7.0


@pytest.mark.parametrize("memory", [{"gpu_gib": -1.0}, {"gpu_gib": 2.0, "least_gib": 3.0}, {"parked_gib": float("inf")}])
def test_memory_that_makes_no_sense_is_refused(memory: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=r"0 GiB, and finite|at most gpu_gib"):
        JobSpec(**memory)  # type: ignore[arg-type]
