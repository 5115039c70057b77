"""The jobs that have not ended: their columns, attempts, placements and commands in flight. Only `transition` and `reappear`
change a phase."""

from dataclasses import dataclass, field

import numpy as np

from rota.core.state.copying import copied
from rota.core.state.job_table import NO_JOB, JobTable
from rota.core.state.phases import (
    BLOCKS,
    ENDED,
    HELD,
    HIDDEN,
    NEVER_FITS,
    OF_ATTEMPT,
    STAYS,
    TO_CANCEL,
    TO_KILL,
    TRANSITIONS,
    WITH_ATTEMPT,
    refuse,
)
from rota.core.state.records import Attempt, InFlight, Setback
from rota.model.commands import Resize, Suspend, SuspendKind
from rota.model.dependency import Dependency
from rota.model.job import JobSpec, Phase
from rota.model.lazy import lazy_column
from rota.model.options import Kind
from rota.model.units import FOREVER, Ints

_PHASE_OF: dict[type, Phase] = {Suspend: Phase.SUSPENDING, Resize: Phase.RESIZING}
"""Phase of a job while a command is in flight. Every other command starts the job."""


@dataclass(eq=False)
class ActiveJobs:
    """Numbers are in columns, the rest is in dicts of small immutable values."""

    table: JobTable = field(default_factory=JobTable)
    """Columns, with a row for each job."""
    row: dict[int, int] = field(default_factory=dict)
    """Row of each job in the table."""
    specs: dict[int, JobSpec] = field(default_factory=dict)
    """Spec of each job, as submitted."""
    attempts: dict[int, Attempt] = field(default_factory=dict)
    """Attempts, from the command to launch them until their last process is gone."""
    desired: dict[int, Ints] = field(default_factory=dict)
    """GPUs that each job should hold by the plan."""
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    """Commands that were not answered yet."""
    to_reconcile: set[int] = field(default_factory=set)
    """Jobs to reconcile: their desired and observed placements may differ. Kept by `State.requeue`."""
    unknown_attempts: set[tuple[int, int, int]] = field(default_factory=set)
    """(job, attempt, node) of processes on a node where they should not run."""
    setbacks: dict[int, Setback] = field(default_factory=dict)
    """Jobs whose last attempt failed in a way in which the next is likely to fail too."""
    kind_of: dict[Kind, int] = field(default_factory=dict)
    """Number of each kind of job, in order of first submission."""
    tenant_of: dict[str, int] = field(default_factory=dict)
    """Number of each tenant, in order of first submission."""
    last_job: int = NO_JOB
    """Number of the latest job that was submitted. Numbers rise."""
    largest_gib: dict[int, float] = field(default_factory=dict)
    """Largest GPU memory that any job so far takes on a GPU of each pool, in GiB."""
    version: int = 0
    """Changes with the set of jobs that may be scheduled."""
    waits_for: dict[int, tuple[Dependency, ...]] = field(default_factory=dict)
    """Jobs that wait for other jobs to end, and for which."""
    awaited_by: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Jobs for which others wait, and which. Some of these may have been cancelled."""
    ended_because: dict[int, tuple[Phase, str]] = field(default_factory=dict, init=False)
    """How jobs have ended in the last fold, and why, if neither a user nor their exit code says it. Snapshots leave it out."""
    unschedulable_holders: frozenset[int] = field(init=False)
    """Jobs that have an attempt and may not be scheduled. Their GPUs cannot be granted. Each change makes a new set."""

    def __post_init__(self) -> None:
        self.unschedulable_holders = frozenset(job for job in self.attempts if self.table.blocks.item(self.row[job]))

    @lazy_column
    def rows(self) -> Ints:
        """Rows of the jobs that may be scheduled now, earliest submission first."""
        found: Ints = (self.table.blocks[: self.table.size] == 0).nonzero()[0]
        return found

    @property
    def held(self) -> set[int]:
        """Jobs that their users hold."""
        return self._blocked(HELD)

    @property
    def cancelling(self) -> set[int]:
        """Jobs that end with their attempt, which is to be killed."""
        return self._blocked(TO_CANCEL)

    @property
    def staying(self) -> set[int]:
        """Jobs that keep drained GPUs until they end, because they are not known to save their state."""
        return self._blocked(STAYS)

    def _blocked(self, why: int) -> set[int]:
        blocks = self.table.blocks[: self.table.size]
        return set(self.table.id[: self.table.size][blocks & (why | ENDED) == why].tolist())

    def is_blocked(self, job: int, why: int) -> bool:
        """Whether one of these bits of `phases.py` is set for a job."""
        return self.table.blocks.item(self.row[job]) & why != 0

    def to_kill(self, job: int) -> bool:
        """Whether the attempt of a job is to be killed."""
        return self.table.blocks.item(self.row[job]) & TO_KILL != 0

    def is_unreachable(self, job: int) -> bool:
        """Whether a node of a job's attempt is unreachable, so that no command gets there."""
        return self.table.phase.item(self.row[job]) == Phase.UNREACHABLE

    def being_parked(self, job: int) -> bool:
        """Whether a command to park a job is in flight."""
        flight = self.in_flight.get(job)
        return flight is not None and isinstance(flight.command, Suspend) and flight.command.kind is SuspendKind.PARK

    # Writing: only `fold` and `learn` call these -------------------------------------------------------------------

    def add(self, job: int, spec: JobSpec, at_s: float) -> int:
        """Add a job, which may not be scheduled yet. Return its row."""
        table, row = self.table, self.table.add()
        table.id[row], table.blocks[row] = job, NEVER_FITS
        table.submitted_s[row] = table.phase_s[row] = table.as_of_s[row] = at_s
        self.row[job], self.specs[job] = row, spec
        self.last_job = job
        return row

    def transition(self, job: int, to: Phase, at_s: float) -> None:
        """Move a job to a phase. With its attempt end its command and its lease; a job that has ended leaves every table.

        A job with an unreachable node stays UNREACHABLE until `reappear`, or until its attempt has ended."""
        table, row = self.table, self.row[job]
        before = table.phase.item(row)
        if before == to:
            return
        if (before, to) not in TRANSITIONS:
            raise refuse(job, before, to)
        if to in WITH_ATTEMPT:
            if to in BLOCKS:
                self.block(job, BLOCKS[to])
            if before == Phase.UNREACHABLE:
                return
            table.phase[row], table.phase_s[row] = to, at_s
            return
        table.phase[row], table.phase_s[row], table.lease_s[row] = to, at_s, FOREVER
        self.attempts.pop(job, None)
        self.in_flight.pop(job, None)
        self._set_blocks(job, row, table.blocks.item(row) & ~OF_ATTEMPT | BLOCKS.get(to, 0))
        if to in BLOCKS:
            self._drop(job)

    def reappear(self, job: int, at_s: float) -> Phase:
        """Move a job whose nodes are all reachable again to the phase of its attempt, and return that."""
        attempt, flight, row = self.attempts[job], self.in_flight.get(job), self.row[job]
        phase = Phase.PARKED if attempt.parked else Phase.RUNNING
        if self.to_kill(job):
            phase = Phase.STOPPING
        elif flight is not None:
            phase = _PHASE_OF.get(type(flight.command), Phase.STARTING)
        self.table.phase[row], self.table.phase_s[row] = phase, at_s
        self.unblock(job, HIDDEN)
        return phase

    def block(self, job: int, why: int) -> None:
        """Note why a job may not be scheduled: bits of `phases.py`."""
        row = self.row[job]
        self._set_blocks(job, row, self.table.blocks.item(row) | why)

    def unblock(self, job: int, why: int) -> None:
        """Take back why a job may not be scheduled."""
        row = self.row[job]
        self._set_blocks(job, row, self.table.blocks.item(row) & ~why)

    def _set_blocks(self, job: int, row: int, blocks: int) -> None:
        before = self.table.blocks.item(row)
        self.table.blocks[row] = blocks
        if (before == 0) != (blocks == 0):
            self._new_rows()
        barred = blocks != 0 and job in self.attempts
        if barred != (job in self.unschedulable_holders):
            self.unschedulable_holders = self.unschedulable_holders | {job} if barred else self.unschedulable_holders - {job}

    def _drop(self, job: int) -> None:
        self.to_reconcile.discard(job)
        self.setbacks.pop(job, None)
        if self.waits_for:
            self.waits_for.pop(job, None)
        del self.row[job], self.specs[job]
        self.table.dead += 1
        if self.table.dead > 256 and 2 * self.table.dead >= self.table.size:
            self.compact()

    def compact(self) -> None:
        """Remove the rows of jobs that have ended."""
        rows = np.array(sorted(self.row.values()), dtype=np.int64)
        self.table.keep(rows, max(256, 2 * len(rows)))
        self.row = {int(job): i for i, job in enumerate(self.table.id[: len(rows)])}
        self._new_rows()

    def _new_rows(self) -> None:
        """Note that the schedulable jobs have changed, or their rows."""
        self.forget_rows()
        self.version += 1

    def forget_rows(self) -> None:
        """Find the rows of schedulable jobs again when they are asked for."""
        self.__dict__.pop("rows", None)

    def copy(self) -> "ActiveJobs":
        return copied(self)
