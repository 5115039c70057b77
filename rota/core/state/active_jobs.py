"""Jobs: those that have not ended, what each was asked to do, where it is, and what is on its way to it."""

from dataclasses import dataclass, field

import numpy as np

from rota.core.state.copying import copied
from rota.core.state.job_table import NO_JOB, JobTable
from rota.core.state.phases import LEGAL_CODES, refuse
from rota.core.state.records import Attempt, InFlight, Setback
from rota.model.commands import Suspend, SuspendKind
from rota.model.job import JobSpec, Phase
from rota.model.options import Kind
from rota.model.units import Ints


@dataclass(eq=False)
class ActiveJobs:
    """The jobs that have not ended. Numbers go into columns, the rest into dicts of small frozen values."""

    table: JobTable = field(default_factory=JobTable)
    """What there is one number of for each job, as columns."""
    row: dict[int, int] = field(default_factory=dict)
    """Each job's row in the table."""
    specs: dict[int, JobSpec] = field(default_factory=dict)
    """What each job asked for."""
    attempts: dict[int, Attempt] = field(default_factory=dict)
    """Jobs that have processes, or were told to start some."""
    desired: dict[int, Ints] = field(default_factory=dict)
    """GPUs that each job should hold by the plan."""
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    """Commands that were not answered yet."""
    unsettled: set[int] = field(default_factory=set)
    """Jobs whose desired and observed placement may differ."""
    doomed: set[int] = field(default_factory=set)
    """Jobs whose attempt must be killed."""
    orphans: set[tuple[int, int, int]] = field(default_factory=set)
    """(job, attempt, node) seen on a node where it should not run."""
    cancelling: set[int] = field(default_factory=set)
    """Jobs that are over once their attempt is."""
    held: set[int] = field(default_factory=set)
    """Jobs that a user holds back."""
    setbacks: dict[int, Setback] = field(default_factory=dict)
    """Jobs whose last attempt failed in a way in which the next is likely to fail too."""
    barred: set[int] = field(default_factory=set)
    """Jobs with an attempt that cannot be scheduled now. Their GPUs cannot be granted."""
    kind_of: dict[Kind, int] = field(default_factory=dict)
    """Numbers of the kinds of jobs, in the order in which they came."""
    tenant_of: dict[str, int] = field(default_factory=dict)
    """Numbers of the tenants, likewise."""
    last_job: int = NO_JOB
    """The latest job that was submitted. Numbers rise."""
    largest_gib: dict[int, float] = field(default_factory=dict)
    """By pool: the most GPU memory that any job so far takes on a GPU there."""
    version: int = 0
    """Changes with the set of jobs that may be scheduled."""
    _rows: Ints | None = None

    @property
    def rows(self) -> Ints:
        """Rows of the jobs that may be scheduled now, earliest submission first."""
        if self._rows is None:
            self._rows = self.table.schedulable[: self.table.size].nonzero()[0]
            self._rows.setflags(write=False)
        return self._rows

    def out_of_reach(self, job: int) -> bool:
        """A node of its attempt is silent, so that no command can reach it."""
        return self.table.phase.item(self.row[job]) == Phase.UNREACHABLE

    def being_parked(self, job: int) -> bool:
        """It was told to go to sleep, and has not answered."""
        flight = self.in_flight.get(job)
        return flight is not None and isinstance(flight.command, Suspend) and flight.command.kind is SuspendKind.PARK

    def set_phase(self, row: int, phase: Phase, at_s: float) -> None:
        before = self.table.phase.item(row)
        if before != phase:
            if (before, phase) not in LEGAL_CODES:
                raise refuse(self.table.id.item(row), before, phase)
            self.table.phase[row] = int(phase)
            self.table.phase_s[row] = at_s

    def set_schedulable(self, row: int, yes: bool) -> None:
        if self.table.schedulable.item(row) != yes:
            self.table.schedulable[row] = yes
            self.new_rows()

    def drop(self, job: int, row: int) -> None:
        """The job has ended: out of every table."""
        self.set_schedulable(row, False)
        for group in (self.unsettled, self.doomed, self.cancelling, self.held):
            group.discard(job)
        self.setbacks.pop(job, None)
        del self.row[job], self.specs[job]
        self.table.dead += 1
        if self.table.dead > 256 and 2 * self.table.dead >= self.table.size:
            self.compact()

    def compact(self) -> None:
        """Give up the rows of jobs that have ended."""
        rows = np.array(sorted(self.row.values()), dtype=np.int64)
        self.table.keep(rows, max(256, 2 * len(rows)))
        self.row = {int(job): i for i, job in enumerate(self.table.id[: len(rows)])}
        self.new_rows()

    def new_rows(self) -> None:
        """Other jobs may be scheduled, or they have other rows."""
        self._rows = None
        self.version += 1

    def copy(self) -> "ActiveJobs":
        return copied(self)
