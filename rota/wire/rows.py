"""Rows that clients receive: plain frozen records, the same in Python and in JSON. Times are ISO 8601 in UTC."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """A trial of a job: it was colocated with a partner to measure whether both train faster than in turns."""

    number: int
    """Number of the trial, counted over all trials of a scheduler."""
    tactic: str
    partner: int
    """Number of the other job."""
    partner_name: str
    joined: bool
    """Whether this job joined its partner; false if the partner joined this job."""
    pair: list[str]
    """Two names under which the pair's result is remembered: profiles, or #ID for a job without a profile."""
    accelerator: str
    gpus: int
    began_at: str
    not_judged_before: str
    """Time before which the pair is not judged."""
    ended_at: str | None = None
    exclusive_rate: float
    """Rate of this job with the GPUs to itself, in steps per second."""
    colocated_rate: float | None = None
    """Rate of this job when colocated, in steps per second; None until measured."""
    partner_exclusive_rate: float
    partner_colocated_rate: float | None = None
    gain: float | None = None
    """Relative gain of the pair over taking turns, such as 0.5 for half as much again; None until measured."""
    verdict: str
    """Verdict: open, kept, reverted, or aborted if the trial ended before it was measured."""
    pair_trials: int = 0
    """Number of judged trials of such a pair on such GPUs."""
    mean_gain: float | None = None
    """Mean gain over these trials; None if there were none."""
    gain_stddev: float | None = None
    """Standard deviation of the gain over these trials; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRow:
    """Tasks of an array."""

    tasks: int
    """Number of tasks."""
    at_once: int | None = None
    """How many tasks may run at once; None if there is no limit."""
    phases: dict[str, int] = field(default_factory=dict)
    """Number of tasks in each phase. Tasks that were removed after they ended are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job, or one array of jobs."""

    id: int
    name: str
    user: str
    phase: str
    """Phase: queued, starting, running, resizing, suspending, parked, checkpointed, stopping, unreachable, finished, failed or
    cancelled."""
    gpus: float
    accelerator: str | None
    """Accelerator type of the job's GPUs; None if it has no GPUs."""
    placement: str | None
    """Placement of the job, such as `n1:0-3`; None if it has no GPUs."""
    accepted_accelerators: list[str] = field(default_factory=list)
    """Accepted accelerator types; empty if the job accepts any."""
    weight: float = 1.0
    priority: int = 0
    """Priority of the job. Jobs of a higher one come first."""
    tenant: str | None = None
    """Path of the job's tenant; None if it has none."""
    steps_done: float | None = None
    steps_total: float | None = None
    steps_per_second: float | None = None
    utilization: float | None = None
    """GPU utilization when last measured with the GPUs to itself, from 0 to 1; None if unknown."""
    peak_gib: float | None = None
    """Peak memory on one GPU, in GiB; None if unknown."""
    eta_seconds: float | None = None
    """Running time left at the job's present or last rate, in seconds, not counting time spent waiting; None if unknown."""
    reason: str | None = None
    """Code of the reason why the job is not running; None if it is running or has ended."""
    submitted_at: str
    started_at: str | None = None
    """Time of the job's first start; None if it never ran."""
    finished_at: str | None = None
    phase_since: str | None = None
    """Start of the present phase; None if the job has ended."""
    suspensions: int = 0
    lost_steps: float = 0.0
    """Steps that were done and lost, because the job was stopped before it could save."""
    lost_seconds: float = 0.0
    """Running time lost, from the last save of an attempt to its end, in seconds."""
    gpu_seconds: float = 0.0
    """Time that the job's attempts held GPUs, times the number of GPUs, in seconds."""
    work_seconds: float = 0.0
    """Normalised work: seconds that the same work takes on one GPU of the job's best type."""
    profile: str | None = None
    """Profile in the job's spec; None if it has none."""
    setbacks: int = 0
    """Consecutive failed attempts whose cause probably persists; after five the job fails."""
    retry_at: str | None = None
    """Earliest time of the next attempt while the job pauses after a failed attempt; None otherwise."""
    problem: str | None = None
    """Failure of the last attempt, or why the state cannot be saved now; None if there is no problem."""
    exit_code: int | None = None
    """Exit code of the last attempt; negative if a signal of this number ended it; None before the first exit."""
    last_change: str | None = None
    """Sentence about the last thing that happened to the job; None for other users."""
    command: str | None = None
    """Command of the job as text; None for other users."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Latest metrics that the script reported, such as its loss."""
    park_method: str | None = None
    """Park method: preload, driver, sleep, exit, stay or node; None if unknown."""
    park_reason: str | None = None
    """Reason for the park method, and why the last attempt to park failed; None if unknown."""
    limits_problem: str | None = None
    """Why the limits of its CPUs and host memory, or those of its user, are not enforced; None if they are, or it has none."""
    steps_problem: str | None = None
    """Reason why some reported steps do not count; None if all count."""
    spec: dict[str, Any] | None = None
    """Complete spec, if one job was requested; None in lists. Variables have only names, because values may be secrets."""
    trials: list[TrialRow] | None = None
    """Trials of the job, the oldest first, if one job was requested; None in lists."""
    most_gpus: float | None = None
    """Most GPUs that the job may have: the maximum of an elastic one; None if the scheduler does not say."""
    max_run_seconds: float | None = None
    """Longest run time of the job over all attempts, in seconds; None if there is no limit."""
    key: str | None = None
    """Key of the job's submission; None if it had none, and for other users. Of an array, the first task has it."""
    array_id: int | None = None
    """Number of the array to which the job belongs; None if it belongs to none."""
    array_index: int | None = None
    """Index of the job in its array; None if it belongs to none, or if the row is that of an array."""
    array: ArrayRow | None = None
    """Tasks of the array if the row is that of an array; None for a job."""
    as_of: str | None = None
    """Time of the journal's last entry if the row was read from disk because the scheduler is not running; None otherwise."""

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
    """A page of jobs in the order for people."""

    jobs: list[JobRow]
    """Jobs with GPUs, then waiting jobs, both by number; then ended jobs, the latest first."""
    total: int
    """Number of jobs on all pages."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRow:
    """One of several jobs that were submitted together."""

    id: int
    name: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorRow:
    """Who sends a request."""

    name: str
    role: str
    """`viewer`, `user` or `operator`."""
    uid: int | None = None
    """Unix user as whom the actor's jobs run; None for the scheduler's own user."""
    tenants: list[str] | None = None
    """Tenants into which the actor may submit; None if the scheduler has no tenants."""
    tenant: str | None = None
    """Tenant of the actor's jobs that name none, given by membership; None if the membership gives none."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """A job for which a change was requested: cancel, hold, release, suspend, resume or requeue."""

    was: str
    """Phase before the request."""
    changed: bool = True
    """Whether the request changed anything for the job."""
    requested: int = 0
    """Number of the job that the request names."""
    job: JobRow
    """Row of the job after the request. An ended job that was submitted again is another job, with another number."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRow:
    """One reason why a job is not running."""

    code: str
    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRow:
    """Why a job is not running."""

    job: JobRow
    reasons: list[ReasonRow]
    """Reasons that hold, the most serious first; empty if the job is running or has ended."""
    ahead: list[JobRow] = field(default_factory=list)
    """Jobs that the policy ranked before this one."""
    forecast: dict[str, Any] | None = None
    """Forecast of the job's start; None, since this version makes no forecast."""
    last_change: str | None = None
    """Sentence about the last thing that happened to the job."""
    policy: str | None = None
    """Policy whose answer is in force; None if no policy has answered yet."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event of a job."""

    job: int
    at: str
    kind: str
    """Kind: submitted, started, resumed, moved, resized, parked, suspended, held, released, requeued, changed, lost, finished,
    failed or cancelled."""
    text: str
    """The event as a sentence, without its time."""
    by: str | None = None
    """User who asked for it; None if unknown, or if no user did."""
    attempt: int | None = None
    """Number of the attempt; None if the event is not about one."""
    accelerator: str | None = None
    gpus: float | None = None
    """Number of GPUs, where a shared GPU counts with its fraction; None if the event is not about GPUs."""
    placement: str | None = None
    """GPUs of the attempt, such as `n1:0-3`."""
    from_placement: str | None = None
    """GPUs before a move or a resize; None for other events."""
    from_step: float | None = None
    """Step from which the attempt continues; None if unknown."""
    cause: str | None = None
    """Why the job gave up its GPUs: displaced, policy, moved, held, drained, reserved or yielded; None for other events."""
    given_to: list[int] = field(default_factory=list)
    """Numbers of the jobs that got its GPUs."""
    policy: str | None = None
    """Policy whose answer was in force when the job gave up its GPUs."""
    nodes: list[str] = field(default_factory=list)
    """Nodes that were lost, drained or reserved, or on which the attempt was lost."""
    exit_code: int | None = None
    problem: str | None = None
    lost_seconds: float = 0.0
    """Running time whose work was lost, in seconds."""
    lost_steps: float = 0.0
    gpu_seconds: float = 0.0
    """GPU-seconds of the attempt, at its end."""
    work_seconds: float = 0.0
    """Normalised work of the attempt at its end, in seconds of a GPU of the job's best type."""
    reclaim_seconds: float | None = None
    """Time from the arrival of the job to its first start, on GPUs that its tenant had lent, in seconds; None for other
    events."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageGroupRow:
    """Usage of one user, tenant, accelerator type or day."""

    name: str | None
    """User, path of the tenant, accelerator type or date in UTC; None for jobs without one, and for the total."""
    submitted: int
    finished: int
    failed: int
    cancelled: int
    gpu_seconds: float
    """Time that attempts held GPUs, times the number of GPUs. A shared GPU counts with the fraction that the job holds."""
    work_seconds: float
    """Normalised work: seconds that the same work takes on one GPU of the job's best type."""
    mean_wait_seconds: float | None
    """Mean time from submission to first start, of the jobs that started; None if none did."""
    mean_jct_seconds: float | None
    """Mean time from submission to end, of the jobs that finished; None if none did."""
    attempts: int
    """Number of attempts that ended."""
    preemptions: int
    """Number of times that the scheduler suspended or parked a job."""
    preempted_seconds: float
    """Running time whose work was lost because the scheduler suspended a job, in seconds."""
    broken_seconds: float
    """Running time whose work was lost with attempts that failed or were lost, in seconds."""
    gpus_busy: float
    """Mean number of GPUs in use."""
    reclaims: int | None = None
    """Number of jobs within the guarantee of their tenant that started on GPUs that it had lent; None if there was none, and in
    reports that are not by tenant."""
    reclaim_seconds_p99: float | None = None
    """99th percentile of the time from the arrival of these jobs to their start, in seconds."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReportRow:
    """Usage of a home over some days."""

    since: str
    until: str
    by: str
    """What the groups are: user, tenant, type or day."""
    groups: list[UsageGroupRow]
    total: UsageGroupRow

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
    """Whether the GPUs are pretend GPUs."""
    jobs: dict[str, int]
    """Phase -> number of unfinished jobs."""
    decisions: int
    now: str
    daemon_pid: int
    policy_worker_pid: int | None
    policy_error: str | None = None
    """Fault of the policy's last answer; None if there is none."""
    slow_gpus: list[str] = field(default_factory=list)
    """Sentences about GPUs that operators drain, that other programs use, or that are slower than others."""
    disk_problem: str | None = None
    """Sentence that the scheduler's disk is full; None if it has room."""
    lease_left_seconds: float | None = None
    """How long all running jobs may keep running without the scheduler, in seconds; None if no job is running."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRow:
    """Whether a scheduler can accept and run jobs. It is returned without the token, so it contains nothing secret."""

    ready: bool
    problems: dict[str, str] = field(default_factory=dict)
    """Faulty component (scheduler, journal, lead or nodes) -> fault; empty if all is well."""
    nodes_up: int = 0
    nodes: int = 0
    """Number of nodes in the cluster, whether or not they are up."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One GPU. Readings are None where they are unknown, as for pretend GPUs."""

    index: int
    """Number of the GPU on its node."""
    name: str
    """Name of the GPU; the UUID of a real GPU."""
    jobs: list[int]
    """Numbers of the jobs that have this GPU or a fraction of it."""
    parked: list[int]
    """Numbers of the jobs that are parked on this GPU."""
    cordoned: bool
    """Whether the GPU is out of service because it is too slow."""
    drained: bool = False
    """Whether an operator drains the GPU: no job starts on it."""
    taken_by: str | None = None
    """User of the GPU that is not a job of this scheduler; None if there is none. No job is placed there until it is free."""
    slowdown: float | None
    """Slowdown factor against other GPUs; None if slowdowns are not learned."""
    memory_gib: float | None = None
    used_gib: float | None = None
    utilization: float | None = None
    """Utilization of the GPU, from 0 to 1; None if unknown."""
    clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    temperature_c: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRow:
    """Nodes or GPUs that an operator drains or reserves, now or in a window to come."""

    id: int
    places: list[str]
    """Nodes such as `n1`, and single GPUs such as `n1:3`."""
    reason: str | None
    """Reason that the operator gave, or what the health check found; None if no reason was given."""
    by: str | None
    """Name of the user who requested it; None if unknown."""
    from_at: str
    """Time at which it begins."""
    until_at: str | None
    """Time at which it ends; None if an operator has to end it."""
    begun: bool
    """Whether it has begun."""
    leaving: list[int]
    """Jobs there that save their state, and so move away."""
    staying: list[int]
    """Jobs there that are not known to save their state, and so keep their GPUs until they end."""
    tenants: list[str] = field(default_factory=list)
    """Tenants for which the GPUs are reserved."""
    users: list[str] = field(default_factory=list)
    """Users for whom the GPUs are reserved."""

    @property
    def reserves(self) -> bool:
        """Whether the GPUs are reserved for some jobs, and not drained."""
        return bool(self.tenants or self.users)

    @property
    def empty(self) -> bool:
        """Whether no job is there."""
        return not (self.leaving or self.staying)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node."""

    name: str
    accelerator: str
    up: bool
    draining: bool
    """Whether the node is drained: jobs leave it and none starts."""
    pretend: bool
    """Whether the node's GPUs are pretend GPUs."""
    host_gib: float | None
    """Host memory for parked jobs, in GiB; None for pretend GPUs, whose parked jobs take none."""
    host_used_gib: float | None
    """Reserved host memory, in GiB: for parked jobs, and for jobs that were parked and keep it until they end."""
    gpus: list[GpuRow]
    drains: list[DrainRow] = field(default_factory=list)
    """Drains and maintenance windows of operators for the node or some of its GPUs."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One tenant, with all tenants below it."""

    tenant: str
    """Path of the tenant."""
    guarantee: float
    """Guaranteed GPUs."""
    cap: float | None
    """Most GPUs; None if there is no cap."""
    gpus: float
    """GPUs granted by the plan in force."""
    borrowed: float
    """GPUs granted beyond the guarantee."""
    lent: float
    """GPUs of the guarantee that the tenant does not have while others borrow."""
    credit: float | None
    """Normalised work lent, less that borrowed, in GPU-hours of the reference type; None unless the fairness is by credits."""
    usage: float | None
    """Normalised work received, halved with every half-life, in GPU-hours of the reference type; None unless the fairness is by
    decaying usage."""
    running: int
    """Jobs that have GPUs by the plan in force."""
    waiting: int
    """Jobs that wait for GPUs."""
    work_hours: float
    """Normalised work received, in GPU-hours of the reference type."""
    gpu_hours: float
    """GPU-hours received."""
    welfare: float | None
    """Normalised work received over what the guarantee alone would have given; None without a guarantee or before its first
    job."""
    start_seconds_p50: float | None
    """Median time from arrival to start of jobs that arrived within the guarantee, in seconds; None if there were none."""
    start_seconds_p99: float | None
    """99th percentile of that time, in seconds."""
    users: dict[str, float]
    """GPUs of each user of the tenant that has some, most first."""
    members: list[str] | None = None
    """Users who may submit into the tenant; None if all may."""
    max_jobs: int | None = None
    """Most unfinished jobs of the tenant; None if there is no limit."""
    user_max_jobs: int | None = None
    """Most unfinished jobs of each user in the tenant; None if there is no limit."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A piece of a job's output."""

    text: str
    next_offset: int
    """Offset of the next piece, in bytes."""
    ended: bool
    """Whether the job has ended and this is the last piece."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
