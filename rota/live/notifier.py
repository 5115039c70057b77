"""The notifier: a thread that sends notifications of jobs' events, so that no server or command delays the scheduler.

A file of the home says up to which event each job's notifications were sent. A start sends those that are missing, so a restart
loses none. If the scheduler is killed between a delivery and the next write of that file, the delivery is repeated, with the same
event id.
"""

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.agent.disk import write_atomic
from rota.live.event_notes import KeptEvent
from rota.live.home_id import home_id
from rota.live.job_events import JobEvent
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords
from rota.live.notification import Notification, NotSent, notifications
from rota.wire.notify import Notify, Occasion

SENT_FILE = "notified.json"
TRIES = 3
PAUSES_SECONDS = (2.0, 15.0)
"""Pauses before the second and the third try, in seconds."""
MAX_WAITING = 10_000
"""Maximum number of notifications that wait. Further ones are dropped."""
KEEP_SECONDS = 3600.0
"""How long it is at least kept that the notifications of an ended job were sent, in seconds."""
MANY = 1000
"""Number of jobs in the file from which it forgets those that ended long ago."""


class Notifier:
    """Sends the notifications of one scheduler."""

    def __init__(self, home: Path, of_all: Notify | None, tell: Callable[[str], None]) -> None:
        """`of_all`: where the events of all jobs are sent; None if nowhere. `tell`: takes lines for the operator."""
        self._home, self._of_all, self._tell = home, of_all, tell
        self._home_id = home_id(home)
        self._waiting: deque[tuple[float, int, Notification]] = deque()
        """Earliest time of the next try by the monotonic clock, number of tries so far, and what to send."""
        self._wake = threading.Condition()
        self._stopping = False
        self._sent: dict[int, int] = {}
        """Number of the last event of each job whose notifications are over."""
        self._since_s = time.time()
        """Jobs that ended before this instant and are not in `_sent` have nothing left to send."""
        self._over_s: dict[int, float] = {}
        """Time at which each job's last notification was over."""
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def start(self, records: JobRecords, events_of: Callable[[int], Sequence[JobEvent]]) -> None:
        """Find what was not sent before this start. `events_of` reads the events of a job from the journal."""
        of_all, self._since_s, self._sent = self._read()
        if of_all != self._plain_target():  # a new target gets what happens from now on
            for job, record in records.open.items():
                if not record.has_notify:
                    self._sent[job] = record.events
            own = {job: self._sent.get(job, 0) for job in self._of_ended(records, all_jobs=False)}
            self._sent = own | {job: number for job, number in self._sent.items() if job in records.open}
            self._since_s = max(self._since_s, math.nextafter(records.ended.latest_end_s(), math.inf))
        self._sent = {job: number for job, number in self._sent.items() if job in records}
        self._write()
        wanted = [*records.open, *self._of_ended(records, all_jobs=self._of_all is not None)]
        for job, record in zip(wanted, records.many(wanted), strict=True):
            done = self._sent.get(job, 0)
            if not self._concerns(record) or record.events <= done or (job not in self._sent and self._is_past(record)):
                continue
            for number, event in enumerate(events_of(job), 1):
                if number > done:
                    self._add(record, number, event)

    def _of_ended(self, records: JobRecords, *, all_jobs: bool) -> list[int]:
        """Return the ended jobs that may have something left to send, by number: with `all_jobs` all of them, else those with
        notifications of their own."""
        found = {*records.ended.to_notify(self._since_s, all_jobs=all_jobs), *(job for job in self._sent if job in records.ended)}
        return sorted(found if all_jobs else (job for job in found if records.ended.outline(job).has_notify))

    def take(self, events: Iterable[KeptEvent], records: Mapping[int, JobRecord]) -> None:
        """Take in events that the journal has just got."""
        for each in events:
            record = records.get(each.job)
            if record is not None and self._concerns(record):
                self._add(record, each.number, JobEvent.of(each.at_s, each.plain))

    def stop(self) -> None:
        """Stop after the try that is under way. The next start sends the rest."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _concerns(self, record: JobRecord) -> bool:
        return self._of_all is not None or record.submitted.spec.notify is not None

    def _is_past(self, record: JobRecord) -> bool:
        return record.ended and record.ended_s is not None and record.ended_s < self._since_s

    def _add(self, record: JobRecord, number: int, event: JobEvent) -> None:
        found = list(notifications(record, number, event, self._home_id, self._of_all))
        if not found:
            return
        with self._wake:
            if len(self._waiting) >= MAX_WAITING:
                if not self._dropped:
                    self._tell(f"notifications are dropped, since {MAX_WAITING:,} wait job={record.id} event={number}")
                self._dropped += 1
                return
            self._dropped = 0
            self._waiting.extend((0.0, 0, each) for each in found)
            self._wake.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (found := self._next()) is not None:
            tries, notification = found
            try:
                notification.send()
            except NotSent as problem:
                if tries + 1 < TRIES:
                    with self._wake:
                        self._waiting.append((time.monotonic() + PAUSES_SECONDS[tries], tries + 1, notification))
                    continue
                self._tell(
                    f"notification not sent after {TRIES} tries job={notification.job} event={notification.number}: {problem}"
                )
            self._over(notification)

    def _next(self) -> tuple[int, Notification] | None:
        """Wait for the next notification that is due. Return it with the number of its tries so far; None at the end."""
        with self._wake:
            while not self._stopping:
                now = time.monotonic()
                at = next((at for at, each in enumerate(self._waiting) if each[0] <= now), None)
                if at is not None:
                    _, tries, notification = self._waiting[at]
                    del self._waiting[at]
                    return tries, notification
                self._wake.wait(min((each[0] for each in self._waiting), default=now + 60.0) - now)
        return None

    def _over(self, notification: Notification) -> None:
        """Keep that an event needs no further try, unless an earlier one of its job, or a second target, still waits."""
        with self._wake:
            earlier = [each.number for _, _, each in self._waiting if each.job == notification.job]
            done = min([notification.number, *(number - 1 for number in earlier)])
            self._sent[notification.job] = max(self._sent.get(notification.job, 0), done)
            if notification.occasion in (Occasion.FINISHED, Occasion.FAILED) and not earlier:
                self._over_s[notification.job] = notification.at_s
        if len(self._sent) > MANY:
            self._forget(notification.at_s - KEEP_SECONDS)
        self._write()

    def _forget(self, until_s: float) -> None:
        """Forget jobs that ended before an instant."""
        self._since_s = max(self._since_s, until_s)
        for job in [job for job, at_s in self._over_s.items() if at_s < self._since_s]:
            del self._over_s[job]
            self._sent.pop(job, None)

    def _plain_target(self) -> Any:
        return None if self._of_all is None else self._of_all.model_dump(mode="json")

    def _read(self) -> tuple[Any, float, dict[int, int]]:
        """Return the target of all jobs, `_since_s` and `_sent` of the scheduler before this one."""
        try:
            plain = json.loads((self._home / SENT_FILE).read_bytes())
            sent = {int(job): int(number) for job, number in plain["sent"].items()}
            return plain["of_all"], float(plain["since_s"]), sent
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None, self._since_s, {}

    def _write(self) -> None:
        sent = {str(job): number for job, number in self._sent.items()}
        plain = {"of_all": self._plain_target(), "since_s": self._since_s, "sent": sent}
        try:
            write_atomic(self._home, SENT_FILE, json.dumps(plain).encode(), durable=True)
        except OSError as problem:
            self._tell(f"{SENT_FILE} cannot be written, so notifications may be repeated after a restart: {problem}")
