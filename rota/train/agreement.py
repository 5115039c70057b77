"""All ranks of a job do the same after the same step: continue, save, or save and exit.

Ranks receive a suspension at different moments and may be several steps apart, because a process runs ahead of its GPU. So rank 0
announces *limits* in a note that all ranks can read (the board). There is one rule:

    A rank begins step n + 1 only if it has read a limit above n.

While the job should run, rank 0 raises the limit before it reaches it. To stop, it leaves the limit where it is and marks it as
the end. To save, it names the current limit as the step to save at, and then raises the limit.

Why this is correct for any timing:

- The note is replaced as a whole and limits only rise, so a rank has read at most the limit that was announced last. No rank is
  ever beyond that.
- When the end L is marked, no limit above L was ever announced. Each rank does its steps up to L, finds no limit above it, reads
  again, and finds the mark. So each rank exits after step L.
- A step to save at, S, is the current limit when it is named. A rank that has not read about S has read no limit above S, so it
  reads again at S or before, and finds it. S is not replaced by a later step before that: rank 0 names the next one after its own
  save at S, which ends when all ranks have saved.
- No rank waits forever. A rank waits at limit L until rank 0 has done enough steps to raise the limit, which are fewer than L. In
  its collectives rank 0 needs the others only up to L, and they have done those steps.

We use no collective, so gloo, NCCL and all other backends work unchanged. The cost is a comparison per step, and a small note
about once a second.

A board may fail for some seconds. Announcements and reads are retried, and ranks wait for them at the limit.
"""

import json
import math
import time
from typing import NamedTuple

from rota.train.rank_store import RankStore, pauses

ANNOUNCEMENT = "announcement.json"
MIN_AHEAD, MAX_AHEAD = 2, 1000
"""How far ahead limits reach, in steps."""
FULL_DISK_SECONDS = 0.05
TROUBLE_SECONDS = 120.0
"""How long a rank retries to read, in seconds."""


class Action(NamedTuple):
    """What a rank does between two steps."""

    save: bool = False
    leave: bool = False
    """Whether to exit after the save."""


GO_ON = Action()
SAVE = Action(save=True)
LEAVE = Action(save=True, leave=True)


class Announcement(NamedTuple):
    """The note of rank 0 to all ranks."""

    limit: int
    """Last step that ranks may do."""
    save_at: int = -1
    leave: bool = False
    """Whether to save and exit at the limit."""
    start: str = ""
    """Name of the checkpoint that all ranks load; empty if they start from the beginning."""
    written: int = 0
    """Number of the last checkpoint that was begun. All ranks count from here."""


class SingleRank:
    """Agreement of a job with one process."""

    next_step: float = math.inf
    """Step at which `at` must be called next; inf if only on a request."""

    def begin(self, first: Announcement) -> Announcement:
        """Return what all ranks start with. `limit` is the step that they continue from."""
        return first

    def at(self, step: int, *, stop: bool, save: bool) -> Action:
        return LEAVE if stop else SAVE if save else GO_ON


class RankZero:
    """Rank 0, which announces limits. Limits reach `ahead_seconds` of the board ahead, which delays a stop by that much."""

    def __init__(self, board: RankStore) -> None:
        self._board = board
        self._announced = Announcement(-1)
        self._ahead = MIN_AHEAD
        self._measured = (0, 0.0)
        """Step and time of the last measurement of the pace."""
        self.next_step: float = 0

    def begin(self, first: Announcement) -> Announcement:
        self._measured = (first.limit, time.monotonic())
        self._announce(first._replace(limit=first.limit + self._ahead), first.limit)
        return first

    def at(self, step: int, *, stop: bool, save: bool) -> Action:
        """Return what to do after this step."""
        if stop:
            self._announce(self._announced._replace(leave=True), step)
        elif save and self._announced.save_at < step:
            self._announce(self._announced._replace(save_at=self._announced.limit), step)
        if not stop and not self._announced.leave and self._raise_at() <= step:
            self._look_at_pace(step)
            self._announce(self._announced._replace(limit=max(step + self._ahead, self._announced.limit)), step)
        announced = self._announced
        if announced.leave and step >= announced.limit:
            return LEAVE
        self.next_step = max(self._raise_at(), step + 1)
        if announced.save_at > step:
            self.next_step = min(self.next_step, announced.save_at)
        return SAVE if step == announced.save_at else GO_ON

    def _raise_at(self) -> int:
        """Return the step at which to raise the limit, or to exit."""
        announced = self._announced
        return announced.limit if announced.leave else announced.limit - max(self._ahead // 2, 1)

    def _look_at_pace(self, step: int) -> None:
        (before, before_s), now_s = self._measured, time.monotonic()
        if step > before and now_s > before_s:
            pace = (step - before) / (now_s - before_s)
            self._ahead = int(min(max(self._board.ahead_seconds * pace, MIN_AHEAD), MAX_AHEAD))
            self._measured = (step, now_s)

    def _announce(self, note: Announcement, step: int) -> None:
        """Write a note. If the disk is full, retry at the next step; at the limit, retry until it is written."""
        while note != self._announced:
            try:
                self._board.put(ANNOUNCEMENT, json.dumps(note._asdict()).encode())
                self._announced = note
            except OSError:
                if step < self._announced.limit:
                    return
                time.sleep(FULL_DISK_SECONDS)


class OtherRank:
    """Any other rank. It follows the announcements of rank 0 and ignores requests, because rank 0 decides for all."""

    def __init__(self, board: RankStore) -> None:
        self._board = board
        self._read = Announcement(-1)
        self._trouble_s: float | None = None
        """Time since which reads fail; None if they do not."""
        self.next_step: float = 0

    def begin(self, first: Announcement) -> Announcement:
        """Wait for rank 0, and start from the same checkpoint."""
        for pause in pauses(self._board):
            if (found := self._look()) is not None:
                self._read = found
                break
            time.sleep(pause)
        return self._read

    def at(self, step: int, *, stop: bool, save: bool) -> Action:
        for pause in pauses(self._board):
            if step < self._read.limit or self._read.leave:
                break
            found = self._look()
            if found is None or found == self._read:
                time.sleep(pause)
            else:
                self._read = found
        if self._read.leave and step >= self._read.limit:
            return LEAVE
        save_at = self._read.save_at
        self.next_step = save_at if step < save_at < self._read.limit else self._read.limit
        return SAVE if step == save_at else GO_ON

    def _look(self) -> Announcement | None:
        """Return the announcement; None if there is none or it cannot be read now."""
        try:
            data = self._board.get(ANNOUNCEMENT)
        except OSError:
            self._trouble_s = time.monotonic() if self._trouble_s is None else self._trouble_s
            if time.monotonic() > self._trouble_s + TROUBLE_SECONDS:
                raise
            return None
        self._trouble_s = None
        try:
            return Announcement(**json.loads(data)) if data is not None else None
        except ValueError:  # read while a store without atomic replacement wrote it
            return None
