"""What a client gets to see: plain frozen rows, the same in Python, in JSON and on the wire. Times are ISO 8601 in UTC."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """Something that was tried with a job: it shares its GPUs with another to see whether they get further so than in turns."""

    number: int
    """Counts all trials of a scheduler."""
    tactic: str
    partner: int
    """The other job."""
    partner_name: str
    joined: bool
    """It came to the GPUs of its partner; false: its partner came to it."""
    kinds: list[str]
    """What is remembered of the pair is remembered under these two names: profiles, or #ID for a job without one."""
    accelerator: str
    gpus: int
    began_at: str
    judged_from: str
    """The pair is not judged before this."""
    ended_at: str | None = None
    before: float
    """Steps per second of this job alone."""
    after: float | None = None
    """And in company; None: not measured yet."""
    partner_before: float
    partner_after: float | None = None
    gain: float | None = None
    """How much more the two do together than in turns: 0.5 is half as much again. None: not measured yet."""
    verdict: str
    """open, kept, undone, or broken off: it ended before it was measured."""
    times_seen: int = 0
    """How often a pair of these kinds was judged on such GPUs."""
    mean_gain: float | None = None
    """The mean gain of all these times."""
    gain_spread: float | None = None
    """Its standard deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job."""

    id: int
    name: str
    user: str
    phase: str
    """queued, starting, running, suspending, parked, checkpointed, stopping, unreachable, finished, failed, cancelled."""
    gpus: float
    accelerator: str | None
    """The type it runs on; None: it holds no GPUs."""
    where: str | None
    """Its GPUs, `n1:0-3`; None: it holds none."""
    accepts: list[str] = field(default_factory=list)
    """Types it would run on; empty: any."""
    weight: float = 1.0
    tenant: str = ""
    steps_done: float | None = None
    steps_total: float | None = None
    steps_per_second: float | None = None
    utilisation: float | None = None
    """How busy it kept its GPUs when it was last measured alone, from 0 to 1; None: not known."""
    peak_gib: float | None = None
    """The most memory that it was seen to have on a GPU; None: not known."""
    eta_seconds: float | None = None
    """What is left of it at the speed it has, or had when it last ran; a waiting job has to get GPUs first. None: not known."""
    reason: str | None = None
    """Why it is not running, as a code; None: it runs, or has ended."""
    submitted_at: str
    started_at: str | None = None
    """When it first ran."""
    finished_at: str | None = None
    phase_since: str | None = None
    """Since when it is in its phase; None: it has ended."""
    suspensions: int = 0
    lost_steps: float = 0.0
    """Work done and lost, because it was stopped before it could save."""
    lost_seconds: float = 0.0
    """The same as time: how long its attempts ran since they last saved."""
    setbacks: int = 0
    """Attempts in a row that failed in a way in which the next is likely to fail too; after five the job fails."""
    retry_at: str | None = None
    """When the next attempt may start, if it pauses after such a one."""
    problem: str = ""
    """What its last attempt failed to do, or why its state can't be saved now; empty: nothing is wrong."""
    exit_code: int | None = None
    """Of its last attempt; negative: the signal that ended it."""
    last_change: str = ""
    """What happened to it last, in a sentence."""
    command: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    """The latest numbers that its script told, such as its loss."""
    parking: str = ""
    """How it is suspended and why so: `preload: ...`, `sleep: ...` or `exit: ...`, and what came of it."""
    steps_problem: str = ""
    """Why not all steps count that the job reported; empty: all count."""
    spec: dict[str, Any] | None = None
    """Everything that was asked for, where one job is asked about; of its variables the names, because values may be secrets."""
    trials: list[TrialRow] | None = None
    """What was tried with it, the oldest first, where one job is asked about."""
    as_of: str | None = None
    """The time of the journal's last entry, if the scheduler is not running and the row was read from disk; None: it is as of
    now."""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


ENDED = ("finished", "failed", "cancelled")
HOLDING = ("starting", "running", "resizing", "suspending", "stopping")
"""Phases in which a job has GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRow:
    """A page of jobs for people."""

    jobs: list[JobRow]
    """Jobs that hold GPUs first, then jobs that wait, by number; then jobs that have ended, the latest first."""
    total: int
    """Jobs on all pages."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRow:
    """A job of several that were submitted together."""

    id: int
    name: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRow:
    """A job that was to be cancelled."""

    was: str
    """Its phase before."""
    job: JobRow
    """As it is now."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRow:
    """One reason that holds."""

    code: str
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRow:
    """Why a job is not running."""

    job: JobRow
    reasons: list[ReasonRow]
    """All that hold, gravest first; empty: it runs, or has ended."""
    ahead: list[JobRow] = field(default_factory=list)
    """Jobs the policy put before it."""
    forecast: dict[str, Any] | None = None
    """When it will run; None: not forecast in this version."""
    last_change: str | None = None
    """What happened to it last, in a sentence."""
    policy: str = ""
    """Whose answer is in force; empty: no policy has answered yet."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow:
    """The cluster in one row."""

    version: str
    policy: str
    placer: str
    cluster: str
    gpus: int
    gpus_busy: int
    pretend: bool
    """The GPUs are made up."""
    jobs: dict[str, int]
    """Phase -> unfinished jobs."""
    decisions: int
    now: str
    daemon_pid: int
    worker_pid: int | None
    policy_problem: str = ""
    """What was wrong with the policy's last answer; empty: nothing."""
    slow_gpus: list[str] = field(default_factory=list)
    """GPUs that other programs use, and those that prove to be slower than others, in words."""
    disk_problem: str = ""
    """That the scheduler's disk is full, in words; empty: it has room."""
    lease_left_seconds: float | None = None
    """How long all jobs that run now may keep running without the scheduler; None: none runs."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRow:
    """Whether a scheduler can take and run jobs. It holds nothing that is secret: it is told without the token."""

    ready: bool
    problems: dict[str, str] = field(default_factory=dict)
    """What is not well (scheduler, journal, lead or nodes) -> why. Empty: all is."""
    nodes_up: int = 0
    nodes: int = 0
    """Nodes that have not left, up or not."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One GPU. What was read of it is None where it is not known, as of made-up GPUs."""

    place: int
    """Its number on its node."""
    name: str
    """Of a real GPU its UUID."""
    jobs: list[int]
    """Who holds it, or a part of it."""
    parked: list[int]
    """Jobs that sleep on it."""
    cordoned: bool
    """It is out of service, because it is too slow."""
    taken_by: str = ""
    """Who uses it that is no job of this scheduler, in words; no other job is put there until it is free. Empty: none does."""
    slowdown: float | None
    """How many times as long as others it takes; None: that is not learned."""
    memory_gib: float | None = None
    used_gib: float | None = None
    utilisation: float | None = None
    """From 0 to 1."""
    clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    temperature_c: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node."""

    name: str
    accelerator: str
    up: bool
    draining: bool
    """Jobs are to leave it."""
    pretend: bool
    """Its GPUs are made up."""
    host_gib: float | None
    """Host memory for parked jobs; None: its GPUs are made up, and parked jobs take none."""
    host_used_gib: float | None
    """What is set aside of it: for jobs that are parked, and for those that were and keep it until they end."""
    gpus: list[GpuRow]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A piece of a job's output."""

    text: str
    next_offset: int
    """Where the next piece begins, in bytes."""
    ended: bool
    """The job has ended and this is the last piece."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
