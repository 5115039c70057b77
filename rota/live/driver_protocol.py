"""The protocol of a driver. The daemon knows it and no driver.

A driver carries out commands, reports events and machines, and reads logs. The driver of live jobs is `rota/live/driver.py`.
`docs/contributing/drivers.md` lists what a driver must promise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.agent.attempt_files import AttemptStatus
from rota.agent.gpu_readings import Readings
from rota.agent.log import LogPiece
from rota.live.node_health import NodeHealth
from rota.model.cluster import Cluster
from rota.model.commands import JobCommand, Prepare, Renew
from rota.model.events import External
from rota.wire.submission import Submission

DriverCommand = JobCommand | Renew | Prepare


@dataclass(frozen=True)
class DriverContext:
    """Functions and values of a daemon for its driver."""

    wake: Callable[[], None]
    """Wake the daemon because `events` has news. Any thread."""
    submitted: Callable[[int], Submission]
    """Return the submission of a job by its number."""
    clock: Callable[[], float]
    """Return the time for events."""
    cluster: Callable[[], Cluster]
    """Return the scheduler's cluster, whose numbers commands use. A node that has left keeps its number."""
    device: Callable[[int], str]
    """Return the name of a GPU (`devices`) by its number in commands."""
    epoch: int = 0
    """Epoch in which the daemon is leader, which rises with every leader; 0 if there is only one."""
    tell: Callable[[str], None] = lambda line: None
    """Print a line for the operator."""
    health: NodeHealth | None = None
    """Health checks before launches; None if every launch goes at once."""


class DriverProtocol(Protocol):
    """Runs jobs. The daemon calls every method from one thread, except the ones that state `any thread`."""

    @property
    def nodes_can_leave(self) -> bool:
        """Whether nodes are machines of their own, which may be unreachable, leave and come back. The driver then reports nodes,
        and when one has left. Otherwise all nodes are this machine."""

    @property
    def look_every_seconds(self) -> float:
        """Interval at which to call `events` while there are no jobs, in seconds; inf if only after `wake`."""

    def discover_cluster(self) -> Cluster:
        """Return the machines. May be called before `open`. The result may change if nodes can leave."""

    def devices(self) -> Sequence[tuple[str, ...]]:
        """Return the names of the GPUs of each of these nodes. A GPU keeps its name, so it is found after a restart."""

    def open(self, context: DriverContext) -> None:
        """Start, and find the attempts of an earlier daemon."""

    def park_method(self, job: Submission) -> tuple[str, str]:
        """Return the park method of such a job (`rota/park/park_method.py`) and its reason. Any thread."""

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        """Start to carry out the commands of one decision. Never wait for a job: `events` reports the results.

        Return replies that are known at once, such as the loss of an attempt that is not there.
        """

    def events(self) -> list[External]:
        """Return what happened since the last call; at the first call, which comes before any command, all that is there."""

    def acknowledge(self) -> None:
        """All events returned so far are durable, so ended attempts may be deleted."""

    def kill_unknown_attempts(self, wanted: Callable[[int, int], bool]) -> None:
        """Kill every attempt, by (job, attempt), that is not wanted. Called once, after the first events were folded.

        A driver that reports whole inventories (`NodeReported`) does nothing here: the core kills unknown attempts.
        """

    def inventory(self) -> list[AttemptStatus]:
        """Return the status of every attempt, including ended ones until they are acknowledged, sorted by job and attempt."""

    def running(self) -> Mapping[int, AttemptStatus]:
        """Return the status of each running job by its number, as of the last `events`. Any thread."""

    def late_starts(self) -> Mapping[int, str]:
        """Return jobs whose start no agent has acknowledged in time, with a sentence that names the node. Any thread."""

    def readings(self) -> Readings:
        """Return the latest readings of the GPUs by name (`devices`); empty if there are none. Takes at most 1 s. Any thread."""

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        """Return at most `limit` bytes of a job's output; empty if there are none. The piece begins after `offset` if the output
        before it has been dropped. Any thread."""

    def log_end(self, job: int) -> int:
        """Return the position behind a job's output so far. Any thread."""

    def close(self) -> None:
        """Stop. The jobs keep running under their leases."""
