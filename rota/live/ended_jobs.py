"""Jobs that have ended, in columns: what is in memory of each of them. The rest of their records is in the journal.

A row takes about 130 bytes. It answers which jobs a list, a name or a dependency means, and what the row of an array adds up.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rota.live.job_record import JobRecord
from rota.model.units import Bools, Floats, Ints
from rota.wire.job_filter import JobFilter
from rota.wire.rows import ENDED

_NO_ROW = -1
_COLUMNS: dict[str, type] = {
    "id": np.int64,
    "array": np.int64,
    "user": np.int32,
    "phase": np.int8,
    "submitted_s": np.float64,
    "started_s": np.float64,
    "ended_s": np.float64,
    "suspensions": np.int32,
    "lost_steps": np.float64,
    "lost_seconds": np.float64,
    "gpu_seconds": np.float64,
    "work_seconds": np.float64,
    "has_notify": np.bool_,
    "has_uid": np.bool_,
    "name_end": np.int64,
    "name_hash": np.int64,
}
"""Columns by name. In `array`, `started_s` and `ended_s`, a job has 0 or NaN for none. `name_end` is where its name ends in the
text of all names; it begins where that of the row before ends."""
_NONE: dict[str, float] = {"array": 0, "started_s": np.nan, "ended_s": np.nan}


class JobOutline(Protocol):
    """What is in memory of every job, whether it has ended or not."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def array(self) -> int | None: ...
    @property
    def submitted_s(self) -> float: ...
    @property
    def started_s(self) -> float | None: ...
    @property
    def ended_s(self) -> float | None: ...
    @property
    def suspensions(self) -> int: ...
    @property
    def lost_steps(self) -> float: ...
    @property
    def lost_seconds(self) -> float: ...
    @property
    def gpu_seconds(self) -> float: ...
    @property
    def work_seconds(self) -> float: ...
    @property
    def has_uid(self) -> bool: ...


class EndedJob(NamedTuple):
    """The outline of a job that has ended."""

    id: int
    name: str
    user: str
    phase: str
    array: int | None
    submitted_s: float
    started_s: float | None
    ended_s: float | None
    suspensions: int
    lost_steps: float
    lost_seconds: float
    gpu_seconds: float
    work_seconds: float
    has_notify: bool
    has_uid: bool

    @property
    def ended(self) -> bool:
        return True

    @classmethod
    def of(cls, record: JobRecord) -> "EndedJob":
        return cls(*(getattr(record, name) for name in cls._fields))

    @classmethod
    def of_plain(cls, job: int, sent: Mapping[str, Any], plain: Mapping[str, Any]) -> "EndedJob":
        """Return the outline of a record in the journal, as `JobRecord.of` reads it, without the cost of a whole record."""
        if "spec" not in sent:  # written by version 0.1
            return cls.of(JobRecord.of(job, sent, plain))
        spec, task = sent["spec"], sent.get("task") or {}
        return cls(
            id=job,
            name=(plain.get("changes") or {}).get("name") or spec.get("name") or f"job-{job}",
            user=sent["user"],
            phase=plain["phase"],
            array=task.get("array"),
            submitted_s=plain["submitted_s"],
            started_s=plain.get("started_s"),
            ended_s=plain.get("ended_s"),
            suspensions=plain.get("suspensions", 0),
            lost_steps=plain.get("lost_steps", 0.0),
            lost_seconds=plain.get("lost_seconds", 0.0),
            gpu_seconds=plain.get("gpu_seconds", 0.0),
            work_seconds=plain.get("work_seconds", 0.0),
            has_notify=spec.get("notify") is not None,
            has_uid=sent.get("uid") is not None,
        )


class SelectedEnded(NamedTuple):
    """The ended jobs of a list."""

    jobs: Ints
    """Their numbers, without tasks that are listed as arrays."""
    ended_s: Floats
    arrays: list[int]
    """Numbers of the arrays that have one of their tasks in the list."""


class EndedArrays(NamedTuple):
    """Which of some arrays have ended."""

    whole: Bools
    """Whether all tasks of each are among the ended jobs. The other columns mean nothing for the others."""
    in_phase: Bools
    """Whether a task of each is in the phase of a filter."""
    ended_s: Floats


class EndedJobs:
    """The ended jobs of one scheduler."""

    def __init__(self) -> None:
        self._count = 0
        self._columns: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in _COLUMNS.items()}
        self._row_of: NDArray[np.int32] = np.empty(0, np.int32)
        """Row of each job, by its number after `_first`."""
        self._first = 0
        self._names = bytearray()
        self._users: list[str] = []
        self._user_codes: dict[str, int] = {}

    def __len__(self) -> int:
        return self._count

    def __contains__(self, job: object) -> bool:
        return isinstance(job, int) and self._row(job) != _NO_ROW

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the jobs in rising order."""
        return iter(sorted(self._column("id").tolist()))

    def add(self, job: EndedJob) -> None:
        """Take in a job that is not among them."""
        if self._count == len(self._columns["id"]):
            self._grow(self._count + self._count // 8 + 1024)
        row, columns = self._count, self._columns
        self._names += job.name.encode(errors="surrogatepass")
        code = self._user_codes.setdefault(job.user, len(self._users))
        if code == len(self._users):
            self._users.append(job.user)
        for column, value in zip(EndedJob._fields, job, strict=True):
            if column not in ("name", "user", "phase"):
                columns[column][row] = _NONE[column] if value is None else value
        columns["user"][row], columns["phase"][row] = code, ENDED.index(job.phase)
        columns["name_end"][row], columns["name_hash"][row] = len(self._names), hash(job.name)
        self._count = row + 1
        self._note_row(job.id, row)

    def remove(self, jobs: Collection[int]) -> None:
        kept = ~np.isin(self._column("id"), np.fromiter(jobs, np.int64))
        every = np.diff(self._column("name_end"), prepend=0)
        text = np.frombuffer(bytes(self._names), np.uint8)
        self._names = bytearray(text[np.repeat(kept, every)].tobytes())
        lengths = every[kept]
        self._columns = {name: self._column(name)[kept] for name in self._columns}
        self._columns["name_end"] = np.cumsum(lengths)
        self._count = len(lengths)
        self._row_of, self._first = np.empty(0, np.int32), 0
        if self._count:
            found = self._columns["id"]
            self._first = int(found.min())
            self._row_of = np.full(int(found.max()) - self._first + 1, _NO_ROW, np.int32)
            self._row_of[found - self._first] = np.arange(self._count)

    # Reading -----------------------------------------------------------------------------------------------------

    def outline(self, job: int) -> EndedJob:
        """Return one job. Raise KeyError if it is not among them."""
        return self.outlines([job])[0]

    def outlines(self, jobs: Sequence[int]) -> list[EndedJob]:
        """Return these jobs, in this order. Raise KeyError if one is not among them."""
        rows = [self._row(job) for job in jobs]
        if _NO_ROW in rows:
            raise KeyError(jobs[rows.index(_NO_ROW)])
        at = np.array(rows, np.intp)
        found: dict[str, list[Any]] = {name: self._columns[name][at].tolist() for name in EndedJob._fields if name != "name"}
        found["name"] = self._names_of(at)
        found["user"] = [self._users[code] for code in found["user"]]
        found["phase"] = [ENDED[code] for code in found["phase"]]
        found["array"] = [number or None for number in found["array"]]
        for name in ("started_s", "ended_s"):
            found[name] = [None if value != value else value for value in found[name]]
        return [EndedJob(*values) for values in zip(*(found[name] for name in EndedJob._fields), strict=True)]

    def named(self, name: str, user: str | None) -> list[EndedJob]:
        """Return the jobs with this name, by number. `user`: among whose jobs it is looked up; None for all users."""
        found = (self._column("name_hash") == hash(name)) & self._of(user)
        jobs = np.sort(self._column("id")[found]).tolist()
        return [each for each in self.outlines(jobs) if each.name == name]

    def names(self, user: str | None) -> list[tuple[int, str]]:
        """Return each name of the jobs of a user, of all jobs for None, with the number of the newest job that has it, by number.
        A name may have a million jobs, and is read once."""
        rows = np.flatnonzero(self._of(user))
        jobs, hashes = self._column("id")[rows], self._column("name_hash")[rows]
        order = np.lexsort((jobs, hashes))
        is_newest = np.ones(len(rows), np.bool_)
        is_newest[:-1] = np.diff(hashes[order]) != 0
        newest = order[is_newest]
        newest = newest[np.argsort(jobs[newest])]
        return list(zip(jobs[newest].tolist(), self._names_of(rows[newest]), strict=True))

    def ended_before(self, until_s: float) -> list[int]:
        """Return the jobs that ended before an instant, by number."""
        found: list[int] = np.sort(self._column("id")[self._column("ended_s") < until_s]).tolist()
        return found

    def to_notify(self, since_s: float, *, all_jobs: bool) -> list[int]:
        """Return the jobs that did not end before an instant, by number: with `all_jobs` all of them, else those with
        notifications of their own."""
        wanted = ~(self._column("ended_s") < since_s)
        if not all_jobs:
            wanted &= self._column("has_notify")
        found: list[int] = np.sort(self._column("id")[wanted]).tolist()
        return found

    def latest_end_s(self) -> float:
        """Return the instant at which the last of them ended; minus infinity if that is unknown."""
        known = self._column("ended_s")[~np.isnan(self._column("ended_s"))]
        return float(known.max(initial=-np.inf))

    def listed(self, wanted: JobFilter) -> SelectedEnded:
        """Return the jobs in a filter. Arrays are not looked at by phase, since all of their tasks count."""
        found = (self._column("submitted_s") >= wanted.since_s) & self._of(wanted.user or None)
        arrays: list[int] = []
        if not wanted.tasks:
            tasks = self._column("array") > 0
            arrays = np.unique(self._column("array")[found & tasks]).tolist()
            found &= ~tasks
        if wanted.phase:
            found &= np.isin(self._column("phase"), _codes(wanted))
        return SelectedEnded(self._column("id")[found], self._column("ended_s")[found], arrays)

    def arrays(self, tasks: Sequence[Ints], wanted: JobFilter) -> EndedArrays:
        """Look at arrays, each with the jobs of its tasks, without a look at one job after the other: they may be many."""
        if not tasks or not self._count:
            none = np.zeros(len(tasks), np.bool_)
            return EndedArrays(none, none, np.zeros(len(tasks)))
        at, begins = np.concatenate(tasks) - self._first, np.cumsum([0, *map(len, tasks[:-1])])
        known = (at >= 0) & (at < len(self._row_of))
        rows = np.where(known, self._row_of[np.where(known, at, 0)], _NO_ROW)
        return EndedArrays(
            np.logical_and.reduceat(rows != _NO_ROW, begins),
            np.logical_or.reduceat(np.isin(self._column("phase")[rows], _codes(wanted)), begins),
            np.maximum.reduceat(np.nan_to_num(self._column("ended_s")[rows]), begins),
        )

    # Parts -------------------------------------------------------------------------------------------------------

    def _column(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self._count]

    def _row(self, job: int) -> int:
        at = job - self._first
        return self._row_of.item(at) if 0 <= at < len(self._row_of) else _NO_ROW

    def _of(self, user: str | None) -> NDArray[np.bool_]:
        """Return whether each job is of this user; of any user for None."""
        if user is None:
            return np.ones(self._count, np.bool_)
        found: NDArray[np.bool_] = self._column("user") == self._user_codes.get(user, -1)
        return found

    def _names_of(self, rows: Ints) -> list[str]:
        ends = self._columns["name_end"]
        begins = np.where(rows > 0, ends[rows - 1], 0).tolist()
        spans = zip(begins, ends[rows].tolist(), strict=True)
        return [self._names[begin:end].decode(errors="surrogatepass") for begin, end in spans]

    def _grow(self, rows: int) -> None:
        for name, column in self._columns.items():
            larger = np.empty(rows, column.dtype)
            larger[: self._count] = column[: self._count]
            self._columns[name] = larger

    def _note_row(self, job: int, row: int) -> None:
        if not len(self._row_of):
            self._first = job
        before, after = max(self._first - job, 0), max(job - self._first - len(self._row_of) + 1, 0)
        if before or after:
            after += len(self._row_of) // 8 + 1024 if after else 0
            edges = (np.full(each, _NO_ROW, np.int32) for each in (before, after))
            self._row_of = np.concatenate([next(edges), self._row_of, next(edges)])
            self._first -= before
        self._row_of[job - self._first] = row


def _codes(wanted: JobFilter) -> list[int]:
    """Return the codes of the phases that are in a filter."""
    return [code for code, phase in enumerate(ENDED) if wanted.is_phase(phase)]
