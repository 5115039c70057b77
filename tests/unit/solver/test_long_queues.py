"""A long queue of a tenant that serves its jobs in order takes a few programs, and gets what it would get job by job."""

import numpy as np
import pytest

import rota
from rota.model.job import Arrival, JobSpec
from rota.model.tenants import Tenants
from rota.policies import hierarchical
from rota.policies.hierarchical import Hierarchical
from rota.solver import filling
from rota.solver.program import Program
from rota.solver.raising import Raise
from rota.traces.trace import Trace

IN_ORDER = Tenants({"vision": 2.0}, {"": "fifo"})


def queue(jobs: int, kinds: tuple[str, ...] = ("V100",), sizes: tuple[int, ...] = (1, 2, 4)) -> Trace:
    draw = np.random.default_rng(jobs)
    return Trace.of(
        "queue",
        "made",
        [
            Arrival(
                float(i),
                JobSpec(
                    gpus=int(draw.choice(sizes)),
                    steps=float(draw.uniform(100, 900)),
                    accelerators=(str(draw.choice(kinds)),),
                    tenant=("vision", "speech")[i % 2],
                ),
            )
            for i in range(jobs)
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [30, 60])
def test_programs_do_not_grow_with_the_queue(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that nobody can use is idle, so that room alone does not say that the rest of the queue gets nothing."""
    programs, solve = 0, Raise.solve

    def counted(self: Raise, *given: np.ndarray) -> object:
        nonlocal programs
        programs += 1
        return solve(self, *given)

    monkeypatch.setattr(Raise, "solve", counted)
    found = rota.simulate(queue(jobs), policy=Hierarchical(IN_ORDER), cluster="8xV100 + 8xK80")
    assert found.summary.finished == jobs
    assert programs <= 12 * found.summary.decisions, "at most as many as jobs run at once, and a few more"


@pytest.mark.parametrize("kinds", [("V100",), ("V100", "K80")])
def test_the_short_cuts_change_nobodys_share(kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares of every decision, with the short cuts and without."""
    quick, compared = filling.water_fill, 0

    def both(program: Program, *given: object) -> object:
        nonlocal compared
        found = quick(program, *given)  # type: ignore[arg-type]
        with monkeypatch.context() as slow:
            slow.setattr(filling, "_like", lambda program, stuck, waiting: np.zeros_like(waiting))
            slow.setattr(Raise, "can_rise", lambda self, among, level: True)
            one_by_one = quick(program, *given)  # type: ignore[arg-type]
        assert found.x == pytest.approx(one_by_one.x, abs=1e-5)
        compared += 1
        return found

    monkeypatch.setattr(hierarchical, "water_fill", both)
    rota.simulate(queue(24, kinds), policy=Hierarchical(IN_ORDER), cluster="4xV100 + 4xK80 + 2xP100")
    assert compared > 20


def test_a_job_far_back_in_the_queue_that_fits_still_gets_its_share() -> None:
    """Nineteen jobs wait for V100s; the last one can have the K80 that is idle."""
    jobs = [Arrival(0.0, JobSpec(name=f"v{i}", steps=1000, accelerators=("V100",), tenant="vision")) for i in range(19)]
    last = Arrival(0.0, JobSpec(name="last", steps=100, accelerators=("K80",), tenant="vision"))
    trace = Trace.of("queue", "made", [*jobs, last])
    found = rota.simulate(trace, policy=Hierarchical(IN_ORDER), cluster="2xV100 + 1xK80", preset="ideal")
    assert found.jobs[-1]["started_s"] == 0 and found.jobs[-1]["ran_on"] == "K80"
