"""What the daemon needs of a driver, and what it gives to one. The daemon knows this protocol and no driver.

A driver carries commands out, says what happened and what machines there are, and gives out logs. That of live jobs is
`rota/live/driver.py`. `docs/contributing/drivers.md` lists what a driver must promise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.agent.attempt_files import AttemptStatus
from rota.agent.gpu_readings import Readings
from rota.agent.log import LogPiece
from rota.model.cluster import Cluster
from rota.model.commands import JobCommand, Renew
from rota.model.events import External
from rota.wire.submission import Submission

DriverCommand = JobCommand | Renew


@dataclass(frozen=True)
class DriverContext:
    """What a daemon gives its driver."""

    wake: Callable[[], None]
    """Call it, from any thread, when `events` has something to tell."""
    submitted: Callable[[int], Submission]
    """What was submitted under this job number."""
    clock: Callable[[], float]
    """The time that events carry."""
    cluster: Callable[[], Cluster]
    """The scheduler's cluster, to whose numbers commands refer. Nodes that left still have theirs."""
    device: Callable[[int], str]
    """The name of a GPU that a command has the number of, as `devices` told it."""
    epoch: int = 0
    """Under which the daemon leads; a later one has a larger number. 0: there is only one."""
    tell: Callable[[str], None] = lambda line: None
    """Takes a line for the operator."""


class DriverProtocol(Protocol):
    """Runs jobs. The daemon calls every method from one thread, except where `any thread` is said."""

    @property
    def nodes_can_leave(self) -> bool:
        """Whether nodes are machines of their own, which may be unreachable, leave and come back. The driver then reports on
        nodes, and says when one has left. Otherwise all nodes are this machine."""

    @property
    def look_every_seconds(self) -> float:
        """How often `events` has to be asked though no job is there, in seconds; inf if only after `wake`."""

    def discover_cluster(self) -> Cluster:
        """What machines there are. May be asked before `open`, and may change if nodes can leave."""

    def devices(self) -> Sequence[tuple[str, ...]]:
        """The names of the GPUs of each of these nodes. A name stays a GPU's own: by it the same GPU is found after a restart."""

    def open(self, context: DriverContext) -> None:
        """Begin. What an earlier daemon started is found again."""

    def how_parked(self, job: Submission) -> tuple[str, str]:
        """How such a job is suspended (a way of `rota/park/park_method.py`), and why so. Any thread."""

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        """Start to carry these out, all that one decision gave. Never waits for a job: what came of it is told by `events`.

        Returns answers that are known at once, such as the loss of an attempt that is not there.
        """

    def events(self) -> list[External]:
        """What happened since the last call; at the first call, everything that is there. No command comes before."""

    def acknowledge(self) -> None:
        """All events told so far are durable: what has ended may be forgotten."""

    def kill_unknown_attempts(self, wanted: Callable[[int, int], bool]) -> None:
        """End every attempt, by (job, attempt), that is not wanted. Called once, after the first events were taken in.

        A driver that reports whole inventories (`NodeReported`) has nothing to do here: the core kills strays itself.
        """

    def inventory(self) -> list[AttemptStatus]:
        """How each attempt is, ended ones included until they are acknowledged; sorted by job and attempt."""

    def running(self) -> Mapping[int, AttemptStatus]:
        """How each job is that runs, by job number, as of the last `events`. Any thread."""

    def late_starts(self) -> Mapping[int, str]:
        """Jobs whose start no agent has acknowledged for a while: which node owes the answer, in a sentence. Any thread."""

    def readings(self) -> Readings:
        """What was lately read of the GPUs, by name (`devices`); empty: nothing. Takes a second at most. Any thread."""

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        """At most so many bytes of a job's output; empty where there is none. It begins later than asked for if what came
        before has been dropped. Any thread."""

    def log_end(self, job: int) -> int:
        """The position behind a job's output so far. Any thread."""

    def close(self) -> None:
        """Leave. The jobs stay, under the leases they have."""
