"""Company: two jobs that share GPUs slow each other down, but only while both run.

What a job is granted (`jobs.option`, `jobs.beside`) follows the plan. How fast it is believed to be (`jobs.rate`), on which
account its time is booked (`jobs.slot`) and what it uses (`jobs.using`) follow who really runs beside it: the shared option while
somebody does, the option alone of the same pool while nobody does. Each of two that share n GPUs uses n / 2 of them, so that
service counts a GPU once.
"""

from rota.core.entries import Life, same_gpus
from rota.core.job_table import NOBODY, JobTable
from rota.core.ledger import Ledger
from rota.model.options import Options
from rota.model.units import MILLI


def co_runner(state: Ledger, job: int, life: Life) -> int:
    """The job that runs on the same GPUs. What overlaps otherwise is a gang that is not whole any more and its successor."""
    if state.specs[job].part < MILLI:
        return NOBODY  # those with other parts of its GPU do not slow it down
    for other in state.observed.holders(life.gpus):
        if other != job and state.jobs.using.item(state.row[other]) > 0 and same_gpus(state.lives[other].gpus, life.gpus):
            return other
    return NOBODY


def began(state: Ledger, job: int, at_s: float) -> None:
    """A job runs from now on: it and whoever runs there go on in company."""
    life = state.lives[job]
    other = co_runner(state, job, life)
    if other != NOBODY or state.options.beside.item(life.option) >= 0:
        _pace(state, job, life, other, at_s)
    if other != NOBODY:
        _pace(state, other, state.lives[other], job, at_s)


def stopped(state: Ledger, job: int, at_s: float) -> None:
    """A job no longer runs: whoever runs there has the GPUs to itself."""
    other = co_runner(state, job, state.lives[job])
    if other != NOBODY:
        _pace(state, other, state.lives[other], NOBODY, at_s)


def book(jobs: JobTable, row: int, at_s: float) -> None:
    """Book what a running job got since it was last booked, at the pace it had."""
    since_s = jobs.as_of_s.item(row)
    elapsed = max(at_s - since_s, 0.0)
    jobs.run_seconds[row] += elapsed
    jobs.attained[row] += elapsed * jobs.using.item(row)
    jobs.received[row, jobs.slot.item(row)] += elapsed
    jobs.steps_done[row] += elapsed * jobs.rate.item(row)
    jobs.as_of_s[row] = max(at_s, since_s)


def _pace(state: Ledger, job: int, life: Life, other: int, at_s: float) -> None:
    jobs, options, row = state.jobs, state.options, state.row[job]
    book(jobs, row, at_s)
    alone = options.alone.item(life.option)
    option = _beside(options, alone, jobs.kind.item(state.row[other])) if other != NOBODY else alone
    jobs.slot[row] = options.slot[option]
    jobs.rate[row] = options.rate[option] / state.slowdown(job, life.gpus)
    jobs.using[row] = state.specs[job].gpus / (1 if other == NOBODY else 2)


def _beside(options: Options, alone: int, kind: int) -> int:
    """The option that is this one in the company of a job of some kind."""
    rows = options.by_slot[options.kind[alone]]
    found = rows[(rows >= 0) & (options.alone[rows] == alone) & (options.beside[rows] == kind)]
    return int(found[0]) if len(found) else alone
