"""The job table: one row for each job that has not ended, as columns."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rota.model.job import Phase
from rota.model.units import FOREVER, Bools, Floats, Ints

NO_JOB = -1
"""No job."""


class JobTable:
    """Columns of the jobs that have not ended (and, until the next compaction, of some that have)."""

    COLUMNS: ClassVar[dict[str, tuple[npt.DTypeLike, Any]]] = {
        "id": (np.int64, NO_JOB),
        "phase": (np.int8, Phase.QUEUED),
        "kind": (np.int32, 0),
        "gpus": (np.float64, 0.0),
        "weight": (np.float64, 1.0),
        "submitted_s": (np.float64, 0.0),
        "phase_s": (np.float64, 0.0),
        "first_run_s": (np.float64, np.nan),
        "as_of_s": (np.float64, 0.0),
        "told_s": (np.float64, 0.0),
        "paced_s": (np.float64, 0.0),
        "paced_steps": (np.float64, 0.0),
        "run_seconds": (np.float64, 0.0),
        "attained": (np.float64, 0.0),
        "steps_total": (np.float64, FOREVER),
        "steps_done": (np.float64, 0.0),
        "steps_saved": (np.float64, 0.0),
        "epoch_steps": (np.float64, 0.0),
        "noted_epochs": (np.float64, 0.0),
        "rate": (np.float64, 0.0),
        "best_rate": (np.float64, 1.0),
        "nominal_rate": (np.float64, 1.0),
        "using": (np.float64, 0.0),
        "option": (np.int32, -1),
        "slice_s": (np.float64, FOREVER),
        "moved_s": (np.float64, -FOREVER),
        "partner": (np.int64, NO_JOB),
        "account": (np.int16, 0),
        "beside": (np.int64, NO_JOB),
        "company_s": (np.float64, 0.0),
        "pinned_s": (np.float64, 0.0),
        "alone_rate": (np.float64, np.nan),
        "alone_option": (np.int32, -1),
        "utilisation": (np.float64, np.nan),
        "peak_gib": (np.float64, np.nan),
        "tenant": (np.int32, 0),
        "deadline_s": (np.float64, FOREVER),
        "move_seconds": (np.float64, 0.0),
        "stop_seconds": (np.float64, 0.0),
        "stays_until_s": (np.float64, -FOREVER),
        "resize_seconds": (np.float64, FOREVER),
        "saves": (np.bool_, True),
        "can_park": (np.bool_, False),
        "park_seconds": (np.float64, 0.0),
        "resume_seconds": (np.float64, 0.0),
        "attempt": (np.int32, 0),
        "sequence": (np.int32, 0),
        "lease_s": (np.float64, FOREVER),
        "suspensions": (np.int32, 0),
        "failures": (np.int32, 0),
        "schedulable": (np.bool_, False),
    }
    id: Ints
    phase: npt.NDArray[np.int8]
    kind: Ints
    gpus: Floats
    """GPUs asked for; less than 1: a part of one."""
    weight: Floats
    submitted_s: Floats
    phase_s: Floats
    first_run_s: Floats
    as_of_s: Floats
    told_s: Floats
    """When its steps were last known for sure: it began, or reported."""
    paced_s: Floats
    """Since when its pace is being measured, where paces are."""
    paced_steps: Floats
    """Its steps then."""
    run_seconds: Floats
    attained: Floats
    steps_total: Floats
    steps_done: Floats
    steps_saved: Floats
    epoch_steps: Floats
    """Steps of one pass over its data; 0: it did not say."""
    noted_epochs: Floats
    """Epochs that it had done when it was last noted how long it is believed to train."""
    rate: Floats
    best_rate: Floats
    nominal_rate: Floats
    using: Floats
    """GPUs it uses while it runs, half of them where it shares them; 0: it does not run."""
    option: Ints
    slice_s: Floats
    """When it first ran by the option it is granted; infinite: it has not yet. A move to other GPUs changes nothing."""
    moved_s: Floats
    """When a tactic last put it on other GPUs; minus infinity: never."""
    partner: Ints
    """The job it should share its GPUs with."""
    account: Ints
    beside: Ints
    """The job that it really shares them with now."""
    company_s: Floats
    """Since when it runs in this company, or alone."""
    pinned_s: Floats
    """Until when something is tried with it, at the latest."""
    alone_rate: Floats
    """Steps per second that were measured while it had its GPUs to itself; not a number: never."""
    alone_option: Ints
    """The option by which it ran then."""
    utilisation: Floats
    """How busy it kept its GPUs then, from 0 to 1."""
    peak_gib: Floats
    """The most memory that it was seen to take on a GPU."""
    tenant: Ints
    deadline_s: Floats
    move_seconds: Floats
    stop_seconds: Floats
    """What stopping it cost last time, with the work that was lost by that; 0: not measured."""
    stays_until_s: Floats
    """When the minimum run time of its attempt is over; minus infinity: it has none."""
    resize_seconds: Floats
    """The price of another size on the nodes it has; infinite: it has to be stopped for that."""
    saves: Bools
    """It may be suspended: it saves its state when it is told to stop, as far as is known, or its spec says `preemptible`."""
    can_park: Bools
    """It can sleep on its host and wake up where it is."""
    park_seconds: Floats
    """What parking it took last time, or is believed to take."""
    resume_seconds: Floats
    """The same of waking it."""
    attempt: Ints
    sequence: Ints
    lease_s: Floats
    suspensions: Ints
    failures: Ints
    schedulable: Bools
    deficit: Floats
    """Seconds that shares no longer in force still owe a job by each option of its kind: shape (rows, accounts)."""
    received: Floats
    """Seconds it got by each option since the shares in force were answered."""
    ACCOUNTS: ClassVar = ("deficit", "received")
    RARE: ClassVar = (
        *("moved_s", "beside", "company_s", "pinned_s", "alone_rate", "alone_option", "utilisation", "peak_gib"),
        *("saves", "can_park", "park_seconds", "resume_seconds", "stop_seconds", "stays_until_s"),
    )
    """Columns that most runs never write to. Till then each is a single value, read-only, shared by copies: `own` it to write."""

    def __init__(self, accounts: int = 1, capacity: int = 256) -> None:
        self.size = 0
        self.dead = 0
        self.accounts = accounts
        self.in_use: frozenset[str] = frozenset()
        """Rare columns that were ever written to. The features of the others cost nothing: all jobs have the default."""
        self._allot(capacity)

    def _allot(self, capacity: int) -> None:
        for name, (dtype, default) in self.COLUMNS.items():
            if name in self.RARE:
                setattr(self, name, np.broadcast_to(np.array(default, dtype=dtype), capacity))
            else:
                setattr(self, name, np.full(capacity, default, dtype=dtype))
        for name in self.ACCOUNTS:
            setattr(self, name, np.zeros((capacity, self.accounts)))

    def own(self, name: str) -> npt.NDArray[Any]:
        """A column that may be written to, whether it is rare or not."""
        column: npt.NDArray[Any] = getattr(self, name)
        if not column.flags.writeable:
            dtype, default = self.COLUMNS[name]
            column = np.full(len(self.id), default, dtype=dtype)
            setattr(self, name, column)
            self.in_use |= {name}
        return column

    def widen(self, accounts: int) -> None:
        """Make room for more options of a kind; accounts in use keep their numbers."""
        if accounts > self.accounts:
            for name in self.ACCOUNTS:
                wider = np.zeros((len(self.id), accounts))
                wider[:, : self.accounts] = getattr(self, name)
                setattr(self, name, wider)
            self.accounts = accounts

    def add(self) -> int:
        if self.size == len(self.id):
            dead = self.dead
            self.keep(np.arange(self.size), 2 * self.size)
            self.dead = dead
        self.size += 1
        return self.size - 1

    def keep(self, rows: Ints, capacity: int) -> None:
        """Keep these rows, in this order, with room for `capacity`."""
        before = {name: getattr(self, name) for name in (*self.COLUMNS, *self.ACCOUNTS)}
        self._allot(capacity)
        for name, column in before.items():
            if column.flags.writeable:
                self.own(name)[: len(rows)] = column[rows]
        self.size, self.dead = len(rows), 0

    def copy(self) -> "JobTable":
        """The rows in use; a little room to grow."""
        twin = JobTable.__new__(JobTable)
        values = twin.__dict__
        values.update(self.__dict__)
        room = min(len(self.id), self.size + 64)
        for name, value in self.__dict__.items():
            if type(value) is np.ndarray and value.flags.writeable:
                values[name] = value[:room].copy()
        return twin
