"""Events: everything the core learns. The journal is a list of these, and state is nothing but their fold.

Job events name the attempt they speak of, and answers the sequence of the command they answer, so late, repeated and
reordered ones can be told apart. `node` None means: the driver speaks for every node of the job at once.
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
    """How a job's processes ended."""

    FINISHED = "finished"
    """Exit code 0."""
    YIELDED = "yielded"
    """Exit code 75: it saved its state and wants to go on later."""
    FAILED = "failed"
    """Any other end of its own."""
    LOST = "lost"
    """Gone through no fault of its own: killed, lease over, node rebooted."""


class ProcessState(StrEnum):
    RUNNING = "running"
    PARKED = "parked"
    ENDED = "ended"


@plain_value
class Submitted:
    """A new job. Numbers rise in order of submission."""

    job: int
    spec: JobSpec
    at_s: float


@plain_value
class Started:
    """Answers Launch, Resume and Resize: it runs as that command said."""

    job: int
    attempt: int
    sequence: int
    at_s: float
    node: int | None = None
    from_step: float | None = None
    """Where it goes on from, which may be further than the core knew: storage has the last word."""
    can_park: bool | None = None
    """Whether it can be parked where it runs now; None: as its spec says."""


@plain_value
class Suspended:
    """Answers Suspend."""

    job: int
    attempt: int
    sequence: int
    at_s: float
    kind: SuspendKind
    steps_done: float
    node: int | None = None
    gib: float = 0.0
    """Host memory that it was seen to take when it was parked, over all its nodes; 0: not told."""
    keeps: bool = False
    """It keeps that until it ends, also while it runs."""
    saved: bool = True
    """It saved its state. If not, it has to begin again where it last did, and is not suspended another time."""
    setback: str = ""
    """Why its state could not be saved, in words; empty: nothing went wrong. See `Exited.setback`."""


@plain_value
class Exited:
    """Processes ended, asked or not."""

    job: int
    attempt: int
    at_s: float
    outcome: Outcome
    steps_saved: float
    """Steps that are safe on storage."""
    node: int | None = None
    steps_done: float | None = None
    """Steps it had made, if it told any..."""
    stepped_s: float | None = None
    """...and when it made the last of them: from then on it was only leaving."""
    setback: str = ""
    """What the attempt failed to do, in words, if the next attempt is likely to fail in the same way; empty: nothing. The job
    pauses before its next attempt, and fails after several setbacks in a row."""


@plain_value
class Attached:
    """A training session of this attempt is up, and says whether it saves its state when it is asked to stop."""

    job: int
    attempt: int
    at_s: float
    saves: bool = True


@value
class Progressed:
    """Where running jobs are: one batch of columns."""

    jobs: Ints
    attempts: Ints
    steps_done: Floats
    steps_saved: Floats
    at_s: float


@value
class Measured:
    """What was measured of running jobs over a while in which nothing changed for them: one batch of columns."""

    jobs: Ints
    attempts: Ints
    since_s: Floats
    """From when on each was measured."""
    rate: Floats
    """Steps per second; not a number: only its memory was measured."""
    utilisation: Floats
    """How busy it kept its GPUs, from 0 to 1; not a number: not known."""
    peak_gib: Floats
    """The most memory it took on a GPU; not a number: not known."""
    least_gib: Floats
    """The least; likewise."""
    at_s: float


@plain_value
class InventoryItem:
    """One line of a node's inventory."""

    job: int
    attempt: int
    sequence: int
    state: ProcessState
    steps: float
    """Steps done while it lives, steps saved once it ended."""
    outcome: Outcome = Outcome.LOST


@plain_value
class NodeReported:
    """A level, not an edge: all a node has. A higher boot means that all it had before is gone."""

    node: int
    boot: int
    at_s: float
    inventory: tuple[InventoryItem, ...] = ()


@value
class NodesReported:
    """Reports of many nodes that have nothing new to tell, in columns: a large cluster has a hundred a second."""

    nodes: Ints
    boots: Ints
    parts: Ints
    """How many lines of its inventory each node has below, in order."""
    jobs: Ints
    attempts: Ints
    parked: Bools
    """They sleep; if not, they run."""
    steps: Floats
    at_s: float

    @classmethod
    def of(cls, reports: Sequence[NodeReported], at_s: float) -> "NodesReported":
        """Of what lives there. A line says nothing about a command: it has no sequence."""
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
        """One by one."""
        columns = (self.jobs.tolist(), self.attempts.tolist(), self.parked.tolist(), self.steps.tolist())
        parts = (
            InventoryItem(job, attempt, 0, ProcessState.PARKED if parked else ProcessState.RUNNING, steps)
            for job, attempt, parked, steps in zip(*columns, strict=True)
        )
        for node, boot, count in zip(self.nodes.tolist(), self.boots.tolist(), self.parts.tolist(), strict=True):
            yield NodeReported(node, boot, self.at_s, tuple(islice(parts, count)))


@plain_value
class NodeLost:
    """The driver vouches that everything this node had in this boot is dead."""

    node: int
    boot: int
    at_s: float


@plain_value
class NodeJoined:
    """A machine that was not there before. It becomes the next node, and its GPUs get the next numbers."""

    node: Node
    at_s: float


@plain_value
class NodeDrainChanged:
    """No job is put there any more, and those that are there go elsewhere; `draining=False`: it is in use again."""

    node: int
    at_s: float
    draining: bool = True


@plain_value
class GpusTaken:
    """A level, not an edge: the GPUs of a node that other programs use, no jobs of ours. A job that runs there
    stays, and no job is put there until they leave."""

    node: int
    gpus: tuple[int, ...]
    by: tuple[str, ...]
    """For each of these GPUs, who uses it, in words."""
    at_s: float


@plain_value
class NodeLeft:
    """A node is gone for good: all it had is dead. A machine that comes back joins as another node."""

    node: int
    at_s: float


@plain_value
class CancelRequested:
    job: int
    at_s: float


@plain_value
class HoldRequested:
    """Keep it from running until it is released; a running job is suspended."""

    job: int
    at_s: float
    held: bool = True


@value
class Allocated:
    """Answers CallPolicy."""

    ticket: int
    allocation: Allocation
    at_s: float
    policy: str = ""
    """The policy that answered, as it is spelled. What it remembers is shown to no other."""


@plain_value
class PolicyFailed:
    """Answers CallPolicy: the policy raised. The plan in force stands."""

    ticket: int
    at_s: float
    message: str = ""


@plain_value
class PolicyTimedOut:
    """Answers CallPolicy: no answer in time, or the asker was lost. The plan in force stands."""

    ticket: int
    at_s: float


@plain_value
class TimerFired:
    """The instant asked for with SetTimer has come."""

    at_s: float


@value
class Decided:
    """What the core itself decided: recorded, so that recovery repeats it and never decides again."""

    at_s: float
    plan: Plan | None
    """None: the plan in force stands."""
    commands: tuple[JobCommand, ...]
    renewals: tuple[Renew, ...] = ()
    """Leases extended."""
    strays: tuple[Kill, ...] = ()
    """Ends of processes nobody wants: nothing of ours is in flight for them."""
    ticket: int = 0
    """The policy was asked under this ticket; 0: it was not."""


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
    | GpusTaken
    | NodeLeft
    | CancelRequested
    | HoldRequested
    | Allocated
    | PolicyFailed
    | PolicyTimedOut
    | TimerFired
)
Event = External | Decided
