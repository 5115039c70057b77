"""The agent's own look at leases: ends attempts that outlive theirs because their supervisors stand still.

A supervisor ends its job with the lease, and the process beside it does so if the supervisor does not (`log_writer.py`). Here is
what they leave: both are stopped, or the supervisor is, and the end of the attempt would never be reported. By a thread of its
own, because a driver may ask nothing of its machine while a network is cut.

A supervisor that runs is never ended here, whatever its files say: a full disk may keep it from writing what it knows.
"""

import threading
from collections.abc import Callable, Collection

from rota.agent.attempt_handle import AttemptHandle
from rota.agent.processes import boot_s, kill, members

LOOK_SECONDS = 1.0
MARGIN_SECONDS = 2.0
"""How much later than the supervisor the agent looks at an attempt; longer than `log_writer.MARGIN_SECONDS`."""
STILL_SECONDS = 2.0
"""How long a supervisor has to stand still at every look before it is ended: waiting for a disk for a moment is usual."""
STOPPED, WAITS_FOR_DISK = "T", "D"
PROBLEM = "its lease was over and its supervisor stood still: the agent of the node ended it"


class LeaseCheck:
    """`wake` is called when an attempt was ended, from another thread."""

    def __init__(self, attempts: Callable[[], Collection[AttemptHandle]], wake: Callable[[], None]) -> None:
        self._attempts, self._wake = attempts, wake
        self._still_s: dict[int, float] = {}
        """Since when supervisors have stood still, by process."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota-leases", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The thread is not waited for if its disk hangs."""
        self._stop.set()
        self._thread.join(STILL_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            still_s, self._still_s = self._still_s, {}
            for attempt in self._attempts():
                if _is_overdue(attempt):
                    self._look(attempt, still_s)

    def _look(self, attempt: AttemptHandle, still_s: dict[int, float]) -> None:
        now_s = boot_s()
        for supervisor in attempt.supervisors():
            if supervisor.state not in (STOPPED, WAITS_FOR_DISK):
                continue
            self._still_s[supervisor.pid] = since_s = still_s.get(supervisor.pid, now_s)
            if now_s < since_s + STILL_SECONDS:
                continue
            job = members(attempt.signs(supervisor.pid), by_environment=False)
            job = job or members(attempt.signs(supervisor.pid))
            if not job and supervisor.state == WAITS_FOR_DISK:
                continue  # the job has ended, and the supervisor writes its end
            attempt.problem = PROBLEM
            for process in (*job, supervisor):
                kill(process)
            self._wake()


def _is_overdue(attempt: AttemptHandle) -> bool:
    """The file is read only if what is known says so."""
    return not attempt.ended and all(boot_s() > attempt.gone_s(fresh=fresh) + MARGIN_SECONDS for fresh in (False, True))
