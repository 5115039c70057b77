"""A home whose scheduler is not running, read from disk: its jobs and their logs. Nothing is written there.

The journal has the scheduler's last state, and the files of supervisors have the later changes of its jobs. Both are folded in
memory, as at the next start of the scheduler.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rota.agent.attempt_files import AttemptStatus, read_order, read_status, starting
from rota.agent.constants import ENDED, LOST
from rota.agent.disk import RUN, SUPERVISOR_LOCK
from rota.agent.log import LogPiece, log_end, read_log
from rota.live.attempt_events import AttemptEvents
from rota.live.clock import Clock
from rota.live.driver_protocol import DriverContext
from rota.live.find_record import find_array, find_record
from rota.live.history import JobHistory
from rota.live.instants import iso
from rota.live.journal import Journal
from rota.live.listing import by_number
from rota.live.log_chunks import MAX_BYTES, log_chunk
from rota.live.read_past import event_rows, open_past, records_reader, usage_report
from rota.live.recovery import Make, recover
from rota.live.whole_job import whole_job
from rota.model.codec import Codec
from rota.wire.client import log_pieces
from rota.wire.home import is_held
from rota.wire.job_filter import JobFilter
from rota.wire.rows import EventRow, JobRow, LogChunk, UsageReportRow


class HomeOnDisk:
    """The read methods of a `Client`, from files alone."""

    def __init__(self, home: Path, journal: Journal, make: Make, codec: Codec) -> None:
        self.home, self._words = home, codec
        self._history = JobHistory(records_reader(home, codec))
        self._history.restore(journal.jobs())
        self._scheduler = recover(journal, codec, make)
        self._history.adopt(self._scheduler.state)
        self.as_of = iso(self._scheduler.state.now_s)
        """Time at which the scheduler last wrote to its journal."""
        self._clock = Clock(self._scheduler.state.now_s, journal.clock_origin())
        self._fold_attempts()

    def _fold_attempts(self) -> None:
        """Fold the changes of attempts since then."""
        state, statuses = self._scheduler.state, self._attempts()
        context = DriverContext(
            wake=lambda: None,
            submitted=self._history.submitted,
            clock=self._clock,
            cluster=lambda: state.nodes.cluster,
            device=str,
        )
        parts = AttemptEvents(context)
        known = [each for each in statuses if self._is_current(each)]
        events = parts.take(known)
        before, cancelling = set(state.jobs.row), set(state.jobs.cancelling)
        lives = {job: attempt.number for job, attempt in state.jobs.attempts.items()}
        self._scheduler.fold(self._clock(), events)
        self._history.note(events, before, cancelling, lives, state, {each.job: each for each in known})
        self._running = parts.running

    def _is_current(self, status: AttemptStatus) -> bool:
        attempt = self._scheduler.state.jobs.attempts.get(status.job)
        return attempt is not None and attempt.number == status.attempt

    def _attempts(self) -> list[AttemptStatus]:
        """Return the attempts on this machine. An attempt without a supervisor and without an end is lost."""
        found = []
        for folder in sorted((self.home / RUN).glob("[0-9]*/[0-9]*")):
            order = read_order(folder)
            status = read_status(folder, order) or starting(int(folder.parent.name), int(folder.name), order)
            if status.state != ENDED and not _is_supervised(folder):
                status = status._replace(state=ENDED, outcome=LOST, ended_s=self._clock())
            found.append(status)
        return found

    def jobs(
        self, everything: bool = False, *, user: str = "", phase: str = "", since_s: float = 0.0, tasks: bool = False
    ) -> list[JobRow]:
        """As `Client.jobs`."""
        wanted = JobFilter(everything, user, phase, since_s, limit=max(len(self._history.records), 1), tasks=tasks)
        rows = by_number(self._history, self._scheduler.state, self._running, self._clock(), wanted)
        return [replace(row, as_of=self.as_of) for row in rows]

    def job(self, key: int | str, *, unique: bool = False) -> JobRow:
        """As `Client.job`."""
        row = whole_job(self._history, self._scheduler.state, self._running, self._clock(), str(key), unique=unique)
        return replace(row, as_of=self.as_of)

    def events(self, key: int | str) -> list[EventRow]:
        """As `Client.events`. What happened after the scheduler stopped is not among them."""
        array = find_array(self._history.records, str(key), self._history.arrays)
        arrays = self._history.arrays
        record = find_record(self._history.records, str(key), arrays=arrays) if array is None else self._history.one(array)
        with open_past(self.home, self._words) as journal:
            return event_rows(journal, record)

    def report(self, by: str = "user", days: int = 7) -> UsageReportRow:
        """As `Client.report`."""
        with open_past(self.home, self._words) as journal:
            return usage_report(journal, by, days, self._clock())

    # Logs --------------------------------------------------------------------------------------------------------

    def log_pieces(self, key: int, follow: bool = False, tail: int | None = None) -> Iterator[LogChunk]:
        """As `Client.log_pieces`. Following a job ends with its supervisor."""
        return log_pieces(lambda offset, tail: self._log_piece(key, offset, tail), follow, tail)

    def _log_piece(self, job: int, offset: int, tail: int | None) -> LogChunk:
        alive = any(_is_supervised(folder) for folder in (self.home / RUN / str(job)).glob("[0-9]*"))
        return log_chunk(self, job, offset, MAX_BYTES, tail, not alive)

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        return read_log(self._log(job), offset, limit)

    def log_end(self, job: int) -> int:
        return log_end(self._log(job))

    def _log(self, job: int) -> Path:
        return self.home / "logs" / f"{job}.log"


def _is_supervised(folder: Path) -> bool:
    try:
        return is_held(folder / SUPERVISOR_LOCK)
    except OSError:
        return False
