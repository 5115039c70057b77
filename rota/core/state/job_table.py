"""The job table: one row for each job that has not ended, as columns."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rota.core.state.phases import ENDED
from rota.model.columns import ColumnSpec, columns_of
from rota.model.columns import column as declare
from rota.model.job import Phase
from rota.model.units import FOREVER, Bools, Floats, Ints
from rota.model.view import JobColumns

NO_JOB = -1
"""No job."""


class JobTable(JobColumns):
    """Columns of the jobs that have not ended (and, until the next compaction, of some that have). To those that policies see
    come those of the scheduler itself."""

    phase: npt.NDArray[np.int8] = declare(np.int8, int(Phase.QUEUED))
    phase_s: Floats = declare(np.float64)
    """Time since which the job has had its phase."""
    blocks: npt.NDArray[np.int16] = declare(np.int16, ENDED)
    """Why the job may not be scheduled: bits of `phases.py`; 0 if it may."""
    attempt: Ints = declare(np.int32, old_name="incarnation")
    """Number of the latest attempt; 0 before the first."""
    sequence: Ints = declare(np.int32)
    """Number of the latest command."""
    lease_s: Floats = declare(np.float64, FOREVER)
    """End of the lease; infinite if the job has none."""
    suspensions: Ints = declare(np.int32)
    """Times that the job was suspended."""
    failures: Ints = declare(np.int32)
    """Attempts that failed."""
    progress_known_s: Floats = declare(np.float64, old_name="told_s")
    """Time at which the steps were last known for sure: the attempt began, or the job reported."""
    rate_window_s: Floats = declare(np.float64, old_name="paced_s")
    """Time since which the pace of the job is measured."""
    rate_window_steps: Floats = declare(np.float64, old_name="paced_steps")
    """Steps that the job had done at that time."""
    steps_saved: Floats = declare(np.float64)
    """Steps of the latest checkpoint."""
    epoch_steps: Floats = declare(np.float64)
    """Steps of one pass over the data; 0 if unknown."""
    noted_epochs: Floats = declare(np.float64)
    """Epochs that were done when the believed length was last noted."""
    slice_start_s: Floats = declare(np.float64, FOREVER, old_name="slice_s")
    """Time at which the job first ran by the option that it is granted; infinite if it has not yet. A move changes nothing."""
    resize_seconds: Floats = declare(np.float64, FOREVER)
    """Time that a change of size takes on the nodes of the job, in seconds; infinite if it has to be stopped for that."""
    share_column: Ints = declare(np.int16, old_name="account")
    """Share column to which the job's time is added."""
    deficit: Floats = declare(np.float64, per_share_column=True)
    """Time that earlier shares still owe the job by each option of its kind, in seconds."""
    received: Floats = declare(np.float64, per_share_column=True)
    """Time that the job got by each option since the shares in force were answered, in seconds."""

    moved_s: Floats = declare(np.float64, -FOREVER, rare=True)
    """Time at which a tactic last moved the job; minus infinity if never."""
    colocated_with: Ints = declare(np.int64, NO_JOB, rare=True, old_name="beside")
    """Job with which the job shares its GPUs now; -1 if none."""
    colocated_since_s: Floats = declare(np.float64, rare=True, old_name="company_s")
    """Time since which the job has had its current partner, or none."""
    alone_rate: Floats = declare(np.float64, np.nan, rare=True)
    """Steps per second, measured without a partner; not a number if never measured."""
    alone_option: Ints = declare(np.int32, -1, rare=True)
    """Option by which the job ran when that was measured."""
    utilization: Floats = declare(np.float64, np.nan, rare=True, old_name="utilisation")
    """GPU utilization at that time, from 0 to 1; not a number if unknown."""
    peak_gib: Floats = declare(np.float64, np.nan, rare=True)
    """Largest GPU memory measured on one GPU, in GiB; not a number if unknown."""
    saves: Bools = declare(np.bool_, True, rare=True)
    """Whether the job may be suspended: it saves its state as far as is known, or its spec says `preemptible`."""
    priority: Ints = declare(np.int16, rare=True)
    """Priority. Jobs of a higher one come first."""
    array: Ints = declare(np.int64, NO_JOB, rare=True)
    """Number of the job's array, if that limits how many of its tasks run at once; -1 otherwise."""
    array_limit: Ints = declare(np.int32, rare=True)
    """How many tasks of that array may run at once; 0 if there is no limit."""
    max_run_seconds: Floats = declare(np.float64, FOREVER, rare=True)
    """Longest run time, in seconds; infinite if the job has no limit."""
    keeps_work: Bools = declare(np.bool_, rare=True)
    """Whether the user who asked that the job stops asked that no work is lost. It then stops only if it saves or is parked."""
    stop_seconds: Floats = declare(np.float64, rare=True)
    """Cost of the last stop, lost work included, in seconds; 0 if not measured."""
    move_measured: Bools = declare(np.bool_, False, rare=True)
    """Whether `move_seconds` was measured: a start took longer than was believed of a move."""
    resize_measured: Bools = declare(np.bool_, False, rare=True)
    """Whether `resize_seconds` was measured."""
    stays_until_s: Floats = declare(np.float64, -FOREVER, rare=True)
    """Time at which the minimum run time of the attempt is over; minus infinity if it has none."""
    owner: Ints = declare(np.int32, -1, rare=True)
    """Node of the job's user in the accounts of tenants; -1 while there are no tenants."""
    arrived_within_guarantee: Bools = declare(np.bool_, False, rare=True)
    """Whether the guarantee of the job's tenant had room for the job when it arrived."""
    reclaimed_for: Ints = declare(np.int64, NO_JOB, rare=True)
    """Job within the guarantee of its tenant for which this one last gave up borrowed GPUs; -1 if none."""

    COLUMNS: ClassVar[dict[str, ColumnSpec]]
    RARE: ClassVar[tuple[str, ...]]
    """Columns that most runs never write to. Until then each is one read-only value that copies share: `own` it to write."""
    SHARE_COLUMNS: ClassVar[tuple[str, ...]]
    """Columns with a value per account: shape (rows, accounts)."""

    def __init__(self, accounts: int = 1, capacity: int = 256) -> None:
        self.size = 0
        self.dead = 0
        self.share_columns = accounts
        self.in_use: frozenset[str] = frozenset()
        """Rare columns that were ever written to. In the others every job has the default, so their features can be skipped."""
        self._allot(capacity)

    def _allot(self, capacity: int) -> None:
        for name, column in self.COLUMNS.items():
            setattr(self, name, self._make(column, capacity, shared=column.rare))

    def _make(self, column: ColumnSpec, capacity: int, *, shared: bool = False) -> npt.NDArray[Any]:
        if shared:
            return np.broadcast_to(np.array(column.default, dtype=column.dtype), capacity)
        shape = (capacity, self.share_columns) if column.per_share_column else capacity
        return np.full(shape, column.default, dtype=column.dtype)

    def own(self, name: str) -> npt.NDArray[Any]:
        """Return a column that may be written to, whether it is rare or not."""
        column: npt.NDArray[Any] = getattr(self, name)
        if not column.flags.writeable:
            column = self._make(self.COLUMNS[name], len(self.id))
            setattr(self, name, column)
            self.in_use |= {name}
        return column

    def widen(self, accounts: int) -> None:
        """Make room for more options of a kind. Accounts in use keep their numbers."""
        if accounts > self.share_columns:
            before, self.share_columns = self.share_columns, accounts
            for name in self.SHARE_COLUMNS:
                wider = self._make(self.COLUMNS[name], len(self.id))
                wider[:, :before] = getattr(self, name)
                setattr(self, name, wider)

    def add(self) -> int:
        """Add a row. Return its number."""
        if self.size == len(self.id):
            dead = self.dead
            self.keep(np.arange(self.size), 2 * self.size)
            self.dead = dead
        self.size += 1
        return self.size - 1

    def keep(self, rows: Ints, capacity: int) -> None:
        """Keep these rows, in this order, with room for `capacity`."""
        before = {name: getattr(self, name) for name in self.COLUMNS}
        self._allot(capacity)
        for name, column in before.items():
            if column.flags.writeable:
                self.own(name)[: len(rows)] = column[rows]
        self.size, self.dead = len(rows), 0

    def copy(self) -> "JobTable":
        """Return a copy of the rows in use, with a little room to grow."""
        twin = JobTable.__new__(JobTable)
        values = twin.__dict__
        values.update(self.__dict__)
        room = min(len(self.id), self.size + 64)
        for name, value in self.__dict__.items():
            if type(value) is np.ndarray and value.flags.writeable:
                values[name] = value[:room].copy()
        return twin

    def pack(self) -> dict[str, Any]:
        """Return what a snapshot keeps: the rows in use of every column."""
        return {"dead": self.dead, **{name: getattr(self, name)[: self.size] for name in self.COLUMNS}}

    @classmethod
    def unpack(cls, packed: dict[str, Any]) -> "JobTable":
        """Return the table of a snapshot. A rare column that was never written to stays shared."""
        size = len(packed["id"])
        table = cls(packed["received"].shape[1], max(256, 2 * size))
        table.size, table.dead = size, packed["dead"]
        for name, column in cls.COLUMNS.items():
            values = packed.get(name, packed.get(column.old_name))
            if values is not None and not np.array_equal(getattr(table, name)[:size], values, equal_nan=True):
                table.own(name)[:size] = values
        return table


JobTable.COLUMNS = columns_of(JobTable)
JobTable.RARE = tuple(name for name, column in JobTable.COLUMNS.items() if column.rare)
JobTable.SHARE_COLUMNS = tuple(name for name, column in JobTable.COLUMNS.items() if column.per_share_column)
