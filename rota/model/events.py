"""Events: everything that the core learns. The journal is a list of events, and the state is their fold.

Events of jobs name the attempt, and replies name the sequence number of their command, so that late, repeated and reordered
events are recognised. If `node` is None, the driver reports for all nodes of the job at once.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice

import numpy as np

from rota.model.allocation import Allocation
from rota.model.cluster import Node
from rota.model.commands import JobCommand, Kill, Renew, SuspendKind
from rota.model.job import JobSpec
from rota.model.plan import Plan
from rota.model.units import Bools, Floats, Ints
from rota.model.value import plain_value, value


class Outcome(StrEnum):
    """How the processes of a job ended."""

    FINISHED = "finished"
    """The exit code was 0."""
    YIELDED = "yielded"
    """The exit code was 75: the job has saved its state and is to be started again."""
    FAILED = "failed"
    """The job failed by itself."""
    LOST = "lost"
    """The job ended by no fault of its own: it was killed, its lease expired, or its node rebooted."""


class ProcessState(StrEnum):
    RUNNING = "running"
    PARKED = "parked"
    ENDED = "ended"


@plain_value
class Submitted:
    """A job was submitted. Job numbers rise in order of submission."""

    job: int
    spec: JobSpec
    at_s: float


@plain_value
class Started:
    """Reply to Launch, Resume and Resize: the job runs as commanded."""

    job: int
    attempt: int
    sequence: int
    at_s: float
    node: int | None = None
    from_step: float | None = None
    """Step from which the attempt continues. It may be later than the core expected, since storage decides."""
    can_park: bool | None = None
    """Whether the attempt can be parked where it runs; None if as in the spec."""


@plain_value
class Suspended:
    """Reply to Suspend."""

    job: int
    attempt: int
    sequence: int
    at_s: float
    kind: SuspendKind
    steps_done: float
    node: int | None = None
    host_gib: float | None = None
    """Measured host memory of the parked job over all its nodes, in GiB; None if unknown."""
    keeps_host_memory: bool = False
    """Whether the job keeps that host memory until it ends, also while it runs."""
    saved: bool = True
    """Whether the job saved its state. If not, it resumes from its last save, and is not suspended again."""
    setback: str | None = None
    """Why the job could not save its state, in words; None if it saved. See `Exited.setback`."""


@plain_value
class Exited:
    """The processes of a job ended, on command or by themselves."""

    job: int
    attempt: int
    at_s: float
    outcome: Outcome
    steps_saved: float
    """Steps that are saved on storage."""
    node: int | None = None
    steps_done: float | None = None
    """Steps that the attempt had made; None if it reported none."""
    stepped_s: float | None = None
    """Time of the last step, after which the job was only shutting down; None if it reported none."""
    setback: str | None = None
    """What the attempt failed to do, in words, if the next attempt is likely to fail in the same way; otherwise None. The job
    pauses before its next attempt, and fails after several setbacks in a row."""


@plain_value
class Attached:
    """A training session of this attempt has started. It reports whether it saves its state when it is asked to stop."""

    job: int
    attempt: int
    at_s: float
    saves: bool = True


@value
class Progressed:
    """Steps of running jobs, as one batch of columns."""

    jobs: Ints
    attempts: Ints
    steps_done: Floats
    steps_saved: Floats
    at_s: float


@value
class Measured:
    """Measurements of running jobs over a time in which nothing changed for them, as one batch of columns."""

    jobs: Ints
    attempts: Ints
    since_s: Floats
    """Time at which each measurement began."""
    rate: Floats
    """Steps per second; NaN if only memory was measured."""
    utilization: Floats
    """Utilisation of the job's GPUs, from 0 to 1; NaN if unknown."""
    peak_gib: Floats
    """Peak memory on a GPU, in GiB; NaN if unknown."""
    least_gib: Floats
    """Lowest memory on a GPU, in GiB; NaN if unknown."""
    at_s: float


@plain_value
class InventoryItem:
    """An attempt in a node's inventory."""

    job: int
    attempt: int
    sequence: int
    state: ProcessState
    steps: float
    """Steps done while the attempt runs, steps saved after it has ended."""
    outcome: Outcome = Outcome.LOST


@plain_value
class NodeReported:
    """All attempts that a node has. If the boot number has risen, all attempts of earlier boots are gone."""

    node: int
    boot: int
    at_s: float
    inventory: tuple[InventoryItem, ...] = ()


@value
class NodesReported:
    """Reports of nodes without news, in columns, since a large cluster sends a hundred a second."""

    nodes: Ints
    boots: Ints
    items: Ints
    """Number of attempts in each node's inventory. The attempts follow, in the order of the nodes."""
    jobs: Ints
    attempts: Ints
    parked: Bools
    """Whether the attempt is parked; if not, it runs."""
    steps: Floats
    at_s: float

    @classmethod
    def of(cls, reports: Sequence[NodeReported], at_s: float) -> "NodesReported":
        """Build columns from reports of running and parked attempts. They reply to no command, so they have no sequence."""
        parts = [part for report in reports for part in report.inventory]
        return cls(
            np.array([report.node for report in reports], dtype=np.int64),
            np.array([report.boot for report in reports], dtype=np.int64),
            np.array([len(report.inventory) for report in reports], dtype=np.int64),
            np.array([part.job for part in parts], dtype=np.int64),
            np.array([part.attempt for part in parts], dtype=np.int64),
            np.array([part.state is ProcessState.PARKED for part in parts], dtype=np.bool_),
            np.array([part.steps for part in parts], dtype=np.float64),
            at_s,
        )

    def reports(self) -> Iterator[NodeReported]:
        """Return the reports one by one."""
        columns = (self.jobs.tolist(), self.attempts.tolist(), self.parked.tolist(), self.steps.tolist())
        parts = (
            InventoryItem(job, attempt, 0, ProcessState.PARKED if parked else ProcessState.RUNNING, steps)
            for job, attempt, parked, steps in zip(*columns, strict=True)
        )
        for node, boot, count in zip(self.nodes.tolist(), self.boots.tolist(), self.items.tolist(), strict=True):
            yield NodeReported(node, boot, self.at_s, tuple(islice(parts, count)))


@plain_value
class NodeLost:
    """All attempts that this node had in this boot are dead. The driver guarantees it."""

    node: int
    boot: int
    at_s: float


@plain_value
class NodeJoined:
    """A new node has joined. It gets the next node number, and its GPUs get the next GPU numbers."""

    node: Node
    at_s: float


@plain_value
class NodeDrainChanged:
    """A node is drained: it gets no more jobs, and its jobs move away. `draining=False` ends this."""

    node: int
    at_s: float
    draining: bool = True


@plain_value
class GpusDrained:
    """An operator drains GPUs: they get no more jobs. Jobs that save their state move away, others stay until they end."""

    number: int
    """Number of the drain. Numbers rise."""
    gpus: tuple[int, ...]
    at_s: float
    from_s: float
    """Time at which the drain begins."""
    until_s: float
    """Time at which the drain ends; infinite if an operator has to end it."""
    reason: str | None = None
    """Reason that the operator gave; None if none."""
    by: str | None = None
    """Name of the user who requested it; None if unknown."""
    by_check: bool = False
    """Whether a health check failed there. The scheduler ends the drain when the check passes again."""


@plain_value
class GpusUndrained:
    """An operator ends the drains of these GPUs that have begun."""

    gpus: tuple[int, ...]
    at_s: float
    by: str | None = None
    """Name of the user who requested it; None if unknown."""


@plain_value
class DrainCancelled:
    """An operator ends a drain, whether it has begun or not."""

    number: int
    at_s: float
    by: str | None = None
    """Name of the user who requested it; None if unknown."""


@plain_value
class NodeRemoved:
    """An operator removes a node, which leaves for good. Its attempts are dead. A machine of its name does not join."""

    node: int
    at_s: float
    by: str | None = None
    """Name of the user who requested it; None if unknown."""


@plain_value
class NodeReadmitted:
    """An operator lets a machine of this name join again after its removal."""

    name: str
    at_s: float
    by: str | None = None
    """Name of the user who requested it; None if unknown."""


@plain_value
class GpusTaken:
    """All GPUs of a node that other programs use. A job that already runs there stays, but none is placed there until they are
    free."""

    node: int
    gpus: tuple[int, ...]
    by: tuple[str, ...]
    """Name of the program that uses each of these GPUs."""
    at_s: float


@plain_value
class NodeLeft:
    """A node has left for good, and all its attempts are dead. If the machine comes back, it joins as another node."""

    node: int
    at_s: float


@plain_value
class CancelRequested:
    job: int
    at_s: float
    by: str | None = None
    """Name of the user who requested it; None if unknown."""


@plain_value
class HoldRequested:
    """Keep a job from running until it is released (`held=False`). A running job is suspended."""

    job: int
    at_s: float
    held: bool = True
    by: str | None = None
    """Name of the user who requested it; None if unknown."""
    lose_work: bool = True
    """Whether a job that neither saves nor can be parked is stopped, and loses its work. If not, it keeps running."""


@plain_value
class RequeueRequested:
    """Save and stop a job, and let it wait for GPUs again. It may start elsewhere."""

    job: int
    at_s: float
    lose_work: bool = True
    """Whether a job that does not save is stopped, and loses its work. If not, it keeps running."""
    by: str | None = None
    """Name of the user who asked; None if unknown."""


@plain_value
class JobChanged:
    """Values of a job that its user or an operator has changed. None: as before."""

    job: int
    at_s: float
    name: str | None = None
    priority: int | None = None
    weight: float | None = None
    max_run_seconds: float | None = None
    """Longest run time, in seconds; infinite for no limit."""
    deadline_s: float | None = None
    """Time of the deadline; infinite for none."""
    by: str | None = None
    """Name of the user who asked; None if unknown."""


@value
class Allocated:
    """Reply to CallPolicy: an allocation."""

    ticket: int
    allocation: Allocation
    at_s: float
    policy: str | None = None
    """Name of the policy that answered, with its options; None if unknown. No other policy gets its memory."""


@plain_value
class PolicyFailed:
    """Reply to CallPolicy: the policy raised an exception. The plan in force stays."""

    ticket: int
    at_s: float
    message: str | None = None
    """What the policy raised; None if it said nothing."""


@plain_value
class PolicyTimedOut:
    """Reply to CallPolicy: the policy took too long, or its process was lost. The plan in force stays."""

    ticket: int
    at_s: float


@plain_value
class TimerFired:
    """The instant of a SetTimer has come."""

    at_s: float


@value
class Decided:
    """A decision of the core. It is recorded, so that recovery repeats it instead of deciding again."""

    at_s: float
    plan: Plan | None
    """The new plan; None if the plan in force stays."""
    commands: tuple[JobCommand, ...]
    renewals: tuple[Renew, ...] = ()
    """Leases that are extended."""
    unknown_attempt_kills: tuple[Kill, ...] = ()
    """Kills of unknown attempts, for which no other command is in flight."""
    ticket: int | None = None
    """Ticket of the policy call that was sent; None if none was."""


External = (
    Submitted
    | Started
    | Suspended
    | Exited
    | Attached
    | Progressed
    | Measured
    | NodeReported
    | NodesReported
    | NodeLost
    | NodeJoined
    | NodeDrainChanged
    | GpusDrained
    | GpusUndrained
    | DrainCancelled
    | NodeRemoved
    | NodeReadmitted
    | GpusTaken
    | NodeLeft
    | CancelRequested
    | HoldRequested
    | RequeueRequested
    | JobChanged
    | Allocated
    | PolicyFailed
    | PolicyTimedOut
    | TimerFired
)
Event = External | Decided
