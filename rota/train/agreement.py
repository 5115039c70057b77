"""What all ranks of a job do at the same step: go on, save, or save and leave.

Ranks hear of a suspension at different moments, and may be several steps apart: on GPUs a process runs ahead of what it has asked
for. So the first rank announces *limits* in a note that all can read (`board`), and this is the only rule:

    A rank begins step n + 1 only if it has read a limit above n.

The first rank raises the limit before it comes to it, as long as the job should run. To stop, it raises it no more and marks it
as the end. To save, it names the limit that stands as the step to save at, and raises the limit afterwards.

Why that is right, whatever the timing:

- The note is replaced as a whole and limits only rise, so whatever a rank has read is at most what was announced last. No rank is
  ever beyond that.
- When the end L is marked, no limit above L was ever announced. Each rank does its steps up to L, finds no limit above it, reads
  again, and finds the mark. So each leaves after step L, and no other.
- A step to save at, S, is the limit that stands when it is named. A rank that has not read of S has read no limit above S, so it
  reads again at S or before, and finds it. S is not replaced by a later one meanwhile: the first rank names the next one after
  its own save at S, which ends when all ranks have saved.
- Nobody waits forever. A rank waits at limit L until the first has done so many of its own steps that it raises the limit, which
  are fewer than L. For those it needs of the others, in collectives of theirs, only steps up to L, and these are done.

No collective of ours is needed, so gloo, NCCL and anything else work untouched. It costs a comparison per step, and a small note
about once a second.

A board may fail for a while. What can't be announced or read is tried again, and at the limit all wait for that.
"""

import json
import math
import time
from typing import NamedTuple

from rota.train.rank_store import RankStore, pauses

ANNOUNCEMENT = "announcement.json"
LEAST_AHEAD, MOST_AHEAD = 2, 1000
"""In steps."""
FULL_DISK_SECONDS = 0.05
TROUBLE_SECONDS = 120.0
"""For so long a rank goes on trying to read."""


class Action(NamedTuple):
    """What to do between two steps."""

    save: bool = False
    leave: bool = False
    """Save and leave."""


GO_ON = Action()
SAVE = Action(save=True)
LEAVE = Action(save=True, leave=True)


class Announcement(NamedTuple):
    """What the first rank says to all."""

    limit: int
    """No rank goes beyond this step."""
    save_at: int = -1
    leave: bool = False
    """At the limit, save and leave."""
    start: str = ""
    """The name of the checkpoint that all ranks go on from; empty: from the beginning."""
    written: int = 0
    """The number of the last checkpoint that was begun: all ranks count on from here."""


class Alone:
    """A job of one process: it agrees with itself."""

    next_step: float = math.inf
    """Ask again at this step at the latest."""

    def begin(self, first: Announcement) -> Announcement:
        """What all begin with. `limit` is the step that they go on from."""
        return first

    def at(self, step: int, *, asked: bool, save: bool) -> Action:
        return LEAVE if asked else SAVE if save else GO_ON


class FirstRank:
    """The rank that announces. A limit reaches `ahead_seconds` of the board ahead: for so long ranks go on when asked to stop."""

    def __init__(self, board: RankStore) -> None:
        self._board = board
        self._said = Announcement(-1)
        self._ahead = LEAST_AHEAD
        self._measured = (0, 0.0)
        """Step and time when the pace was last looked at."""
        self.next_step: float = 0

    def begin(self, first: Announcement) -> Announcement:
        self._measured = (first.limit, time.monotonic())
        self._announce(first._replace(limit=first.limit + self._ahead), first.limit)
        return first

    def at(self, step: int, *, asked: bool, save: bool) -> Action:
        """After this step."""
        if asked:
            self._announce(self._said._replace(leave=True), step)
        elif save and self._said.save_at < step:
            self._announce(self._said._replace(save_at=self._said.limit), step)
        if not asked and not self._said.leave and self._raise_at() <= step:
            self._look_at_pace(step)
            self._announce(self._said._replace(limit=max(step + self._ahead, self._said.limit)), step)
        said = self._said
        if said.leave and step >= said.limit:
            return LEAVE
        self.next_step = max(self._raise_at(), step + 1)
        if said.save_at > step:
            self.next_step = min(self.next_step, said.save_at)
        return SAVE if step == said.save_at else GO_ON

    def _raise_at(self) -> int:
        """The step at which the limit is raised, or at which to leave."""
        said = self._said
        return said.limit if said.leave else said.limit - max(self._ahead // 2, 1)

    def _look_at_pace(self, step: int) -> None:
        (before, before_s), now_s = self._measured, time.monotonic()
        if step > before and now_s > before_s:
            pace = (step - before) / (now_s - before_s)
            self._ahead = int(min(max(self._board.ahead_seconds * pace, LEAST_AHEAD), MOST_AHEAD))
            self._measured = (step, now_s)

    def _announce(self, said: Announcement, step: int) -> None:
        """A disk that can't take it, because it is full, is tried again with the next step; at the limit, until it can."""
        while said != self._said:
            try:
                self._board.put(ANNOUNCEMENT, json.dumps(said._asdict()).encode())
                self._said = said
            except OSError:
                if step < self._said.limit:
                    return
                time.sleep(FULL_DISK_SECONDS)


class OtherRank:
    """A rank that goes by what the first one announces. It is not asked itself: the first one decides for all."""

    def __init__(self, board: RankStore) -> None:
        self._board = board
        self._read = Announcement(-1)
        self._trouble_s: float | None = None
        """Since when it can't be read."""
        self.next_step: float = 0

    def begin(self, first: Announcement) -> Announcement:
        """Waits for the first rank, and goes on from the same checkpoint."""
        for pause in pauses(self._board):
            if (found := self._look()) is not None:
                self._read = found
                break
            time.sleep(pause)
        return self._read

    def at(self, step: int, *, asked: bool, save: bool) -> Action:
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
        """None: there is nothing to read just now."""
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
        except ValueError:  # a store that does not replace as a whole, read while it is written
            return None
