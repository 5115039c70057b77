"""Colocation: two jobs on the same GPUs slow each other down while both run.

What a job is granted (`jobs.option`, `jobs.partner`) follows the plan. Its believed rate (`jobs.rate`), the share column to
which its time is added (`jobs.share_column`) and the GPUs that it uses (`jobs.gpus_in_use`) follow the jobs that really run on
its GPUs: the shared option while its partner runs, else the exclusive option of the same pool. Each of two jobs that share n
GPUs uses n / 2 of them, so that service counts a GPU once.
"""

from rota.core.state.job_table import NO_JOB, JobTable
from rota.core.state.records import Attempt, same_gpus
from rota.core.state.state import State
from rota.model.options import Options
from rota.model.units import MILLI


def partner_of(state: State, job: int, attempt: Attempt) -> int:
    """Return the job that runs on the same GPUs. Any other overlap is between a gang that has lost a node and its successor."""
    if not state.sharing or state.jobs.specs[job].gpus < 1:
        return NO_JOB  # jobs with other fractions of its GPU do not slow it down
    for other in state.nodes.observed.holders(attempt.gpus):
        if (
            other != job
            and state.jobs.table.gpus_in_use.item(state.jobs.row[other]) > 0
            and same_gpus(state.jobs.attempts[other].gpus, attempt.gpus)
        ):
            return other
    return NO_JOB


def began(state: State, job: int, at_s: float) -> None:
    """A job starts to run where jobs may share GPUs. If its partner runs, both continue at the rate of a pair."""
    attempt = state.jobs.attempts[job]
    other = partner_of(state, job, attempt)
    if other != NO_JOB or state.beliefs.options.partner_kind.item(attempt.option) >= 0:
        _set_rate(state, job, attempt, other, at_s)
    if other != NO_JOB:
        _set_rate(state, other, state.jobs.attempts[other], job, at_s)


def stopped(state: State, job: int, at_s: float) -> None:
    """A job stops running where jobs may share GPUs. Its partner has the GPUs to itself."""
    other = partner_of(state, job, state.jobs.attempts[job])
    if other != NO_JOB:
        _set_rate(state, other, state.jobs.attempts[other], NO_JOB, at_s)


def accrue_service(jobs: JobTable, row: int, at_s: float) -> None:
    """Book what a running job received since the last booking, at its rate."""
    since_s = jobs.as_of_s.item(row)
    elapsed = at_s - since_s
    if elapsed <= 0:
        return
    jobs.run_seconds[row] += elapsed
    jobs.attained_gpu_seconds[row] += elapsed * jobs.gpus_in_use.item(row)
    jobs.received[row, jobs.share_column.item(row)] += elapsed
    jobs.steps_done[row] += elapsed * jobs.rate.item(row)
    jobs.as_of_s[row] = at_s


def _set_rate(state: State, job: int, attempt: Attempt, other: int, at_s: float) -> None:
    table, options, row = state.jobs.table, state.beliefs.options, state.jobs.row[job]
    accrue_service(table, row, at_s)
    alone = options.alone.item(attempt.option)
    option = _shared_with(options, alone, table.kind.item(state.jobs.row[other])) if other != NO_JOB else alone
    table.share_column[row] = options.share_column[option]
    if table.colocated_with.item(row) != other:
        table.own("colocated_with")[row], table.own("colocated_since_s")[row] = other, at_s
    table.rate[row] = options.rate.item(option)
    if other != NO_JOB:
        colocated_rate(state, row)
    table.rate[row] /= state.slowdown(job, attempt.gpus)
    table.gpus_in_use[row] = options.milligpus.item(option) / MILLI / (1 if other == NO_JOB else 2)


def colocated_rate(state: State, row: int) -> None:
    """Set the believed rate of a job that shares its GPUs by an option without partner: as measured for the pair, or half of the
    rate alone if the pair was never measured."""
    table, options = state.jobs.table, state.beliefs.options
    option = options.by_share_column.item(table.kind.item(row), table.share_column.item(row))
    if options.partner_kind.item(option) < 0:
        pool, gpus = options.pool.item(option), options.gpus.item(option)
        seen = state.pair_stats(table.id.item(row), table.colocated_with.item(row), pool, gpus)
        table.rate[row] *= 0.5 if seen is None else seen.first


def _shared_with(options: Options, alone: int, kind: int) -> int:
    """Return the option that shares GPUs with a job of this kind, or `alone` if there is none."""
    rows = options.of_kind[options.kind[alone]]
    found = rows[(rows >= 0) & (options.alone[rows] == alone) & (options.partner_kind[rows] == kind)]
    return int(found[0]) if len(found) else alone
