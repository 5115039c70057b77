"""Validate: what must hold of a ledger after every step. Switched on in tests and in chaos, never on the hot path."""

import numpy as np

from rota.core.ledger import NOBODY, Ledger
from rota.model.job import Phase


def validate(state: Ledger) -> None:
    """Raise AssertionError, with a story, at the first thing that cannot be."""
    jobs = state.jobs
    assert sorted(state.row) == sorted(state.specs), "rows and specs name different jobs"
    for job, row in state.row.items():
        assert jobs.id[row] == job, f"row {row} is not job {job}'s"
        assert not Phase(jobs.phase[row]).ended, f"job {job} ended but was not forgotten"
    _check_gpus(state)
    _check_wishes(state)
    for job, flight in state.in_flight.items():
        life = state.lives.get(job)
        assert life is not None, f"a command is in flight for job {job}, which has no incarnation"
        assert flight.command.incarnation == life.incarnation, f"job {job}'s command speaks of another incarnation"
        assert set(flight.waiting) <= set(flight.command.nodes), f"job {job} waits for nodes it never told"
    for job in state.row:
        assert job in state.unsettled or job in state.in_flight or state.settled(job), f"job {job} is forgotten half way"
    for job in state.barred:
        assert job in state.lives and not jobs.schedulable[state.row[job]], f"job {job} is barred for no reason"
    assert (state.host_gib >= -1e-6).all(), "more host memory is used than there is"
    _check_caches(state)


def _check_caches(state: Ledger) -> None:
    fresh = state.copy()
    fresh._rows = fresh._usable = None
    assert (fresh.rows == state.rows).all(), "the list of jobs that may be scheduled is out of date"
    assert (fresh.usable()[0] == state.usable()[0]).all(), "the map of usable GPUs is out of date"


def _check_gpus(state: Ledger) -> None:
    holders: dict[int, set[int]] = {}
    for gpu, job in enumerate(state.gpu_job.tolist()):
        if job != NOBODY:
            holders.setdefault(job, set()).add(gpu)
    for job, gpus in holders.items():
        life = state.lives.get(job)
        assert life is not None, f"GPUs {sorted(gpus)} are held by job {job}, which has no incarnation"
        assert gpus <= set(life.gpus.tolist()), f"job {job} holds GPUs it was never given"
    for job, life in state.lives.items():
        assert job in state.row, f"job {job} has an incarnation but is not in the table"
        assert life.incarnation == state.jobs.incarnation[state.row[job]], f"job {job} runs an incarnation that is not its own"
        assert life.parts, f"job {job} has an incarnation without parts"
        pools = set(state.cluster.gpu_pool[life.gpus].tolist())
        assert len(pools) == 1, f"job {job} mixes accelerator types"
        assert len(set(life.gpus.tolist())) == state.jobs.gpus[state.row[job]], f"job {job}'s gang is not whole"


def _check_wishes(state: Ledger) -> None:
    wanted = np.full(len(state.gpu_wanted), NOBODY)
    for job, gpus in state.desired.items():
        assert (wanted[gpus] == NOBODY).all(), f"GPUs of job {job} are promised twice"
        wanted[gpus] = job
        assert state.jobs.option[state.row[job]] >= 0, f"job {job} is placed but not granted"
    assert (wanted == state.gpu_wanted).all(), "the map of promised GPUs is out of step"
