"""What a daemon asks of its machine, and what it is told."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rota.agent import rules
from rota.agent.attempt_files import LaunchFile, StatusFile, seconds, starting
from rota.agent.constants import ATTEMPT_ID, RUNNING, STARTING
from rota.agent.log import LIMIT_BYTES
from rota.agent.processes import boot_id, boot_s


@dataclass(frozen=True, kw_only=True)
class LaunchOrder:
    """Start one attempt."""

    job: int
    attempt: int
    sequence: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """All of its environment; the agent adds `ROTA_LIFE`, its supervisor `ROTA_RUN_DIR`, and nothing else."""
    workdir: str
    log: Path | str
    gpus_text: str
    """Where it runs, for people: `n1 GPUs 0,1`."""
    from_step: float
    lease_seconds: float
    """From now."""
    grace_seconds: float
    """Between the signal and SIGKILL when it is suspended."""
    lease_grace_seconds: float
    """The same when its lease is over, if that is less."""
    signal: str = "SIGTERM"
    progress: str = ""
    """A pattern on its output with one or two groups: step, total."""
    steps_total: float | None = None
    stays: bool = False
    """It is not known to save its state: if it can't be parked it keeps running, until a session of it says that it saves."""
    log_bytes: int = LIMIT_BYTES
    """What its log may take on disk."""
    clock_origin_s: float | None = None
    """What the daemon's clock said when the machine was booted; None: instants are told by the wall clock."""
    park_way: str = ""
    """How it is parked (`rota/park/park_method.py`), if that was found where it is started; empty: that was found before,"""
    park_why: str = ""
    """and why so."""


@dataclass(frozen=True)
class AttemptStatus:
    """How one attempt is. Instants are Unix time."""

    job: int
    attempt: int
    sequence: int
    """The highest of the commands it has seen."""
    state: str
    """starting, running, parked or ended."""
    steps_done: float
    steps_total: float | None
    steps_saved: float
    outcome: str | None
    exit_code: int | None
    """-9 is death by signal 9; None if there never was a process, or its end was not seen."""
    started_s: float | None
    ended_s: float | None
    asked: str | None
    """What it was asked to end by: suspend, kill or lease."""
    problem: str
    launch_sequence: int = 0
    """That of its launch."""
    began_s: float | None = None
    """When it began to work: with its first step, or, if it tells no steps, with its process. None: not yet."""
    stepped_s: float | None = None
    """When `steps_done` came to be what it is; None: it has told no step."""
    gpus_text: str = ""
    """Where it runs, as its order says."""
    change_sequence: int = 0
    """That of the last resume or resize; 0: there was none."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The latest numbers that it told, such as its loss."""
    from_step: float = 0.0
    """Where it began."""
    parked_s: float | None = None
    """When it fell asleep, while it sleeps."""
    resumed_s: float | None = None
    """When it was last woken."""
    parked_seconds: float = 0.0
    """How long it has slept in all, this time not counted."""
    parked_gib: float = 0.0
    """What its GPUs gave to the host when it was last parked."""
    parking_problem: str = ""
    """Why it could not be parked, when that was last tried."""
    park_way: str = ""
    """As its order says, as `park_why`."""
    park_why: str = ""
    steps_problem: str = ""
    """Why not all steps count that the job reported; set by the scheduler that takes the status in. Empty: all count."""
    paced_s: float | None = None
    """Since when its pace is measured; None: it has made no step since it last started or was resumed."""
    paced_steps: float = 0.0
    """How many steps it had made then."""
    saves: bool | None = None
    """Whether its session says that it saves its state when it is asked to stop; None: no session has said anything."""
    saving_problem: str = ""
    """Why its state could not be saved, when that was last tried; empty: it could."""
    safe_seconds: float = 0.0
    """How long it had worked when its state was last saved; 0: not since it was started."""

    @property
    def start_sequence(self) -> int:
        """That of the command that made it run as it does."""
        return self.change_sequence or self.launch_sequence

    @property
    def tells_steps(self) -> bool:
        """It has told where it is, in its output or by itself."""
        return self.stepped_s is not None


def to_launch_file(order: LaunchOrder) -> LaunchFile:
    """As it goes to disk. The lease runs from here.

    The life is drawn here and overrides one that came along: a daemon that runs inside a job has that job's in its environment,
    and another home on this machine may count its jobs alike.
    """
    return LaunchFile(
        job=order.job,
        attempt=order.attempt,
        sequence=order.sequence,
        argv=list(order.argv),
        env={**order.env, ATTEMPT_ID: f"{order.job}.{order.attempt}.{secrets.token_hex(8)}"},
        workdir=str(Path(order.workdir).absolute()),
        log=str(Path(order.log).absolute()),
        gpus_text=order.gpus_text,
        from_step=float(order.from_step),
        boot_id=boot_id(),
        written_boot_s=boot_s(),
        lease_seconds=seconds(order.lease_seconds) or 0.0,
        grace_seconds=seconds(order.grace_seconds) or 0.0,
        lease_grace_seconds=seconds(order.lease_grace_seconds) or 0.0,
        signal=order.signal,
        progress=order.progress,
        steps_total=None if order.steps_total is None else float(order.steps_total),
        stays=order.stays,
        log_bytes=int(order.log_bytes),
        clock_origin_s=order.clock_origin_s,
        park_way=order.park_way,
        park_why=order.park_why,
    )


def attempt_status(job: int, attempt: int, order: LaunchFile | None, status: StatusFile | None) -> AttemptStatus:
    status = status or starting(job, attempt, order)
    since_s, since_steps = status.pace[1:3]  # a list, as JSON has it
    return AttemptStatus(
        job=job,
        attempt=attempt,
        sequence=status.sequence,
        state=status.state,
        steps_done=status.steps_done,
        steps_total=status.steps_total,
        steps_saved=status.steps_saved,
        outcome=status.outcome,
        exit_code=status.exit_code,
        started_s=status.started_s,
        ended_s=status.ended_s,
        asked=status.asked,
        problem=status.problem,
        launch_sequence=order.sequence if order else 0,
        began_s=status.began_s,
        stepped_s=status.stepped_s,
        gpus_text=order.gpus_text if order else "",
        change_sequence=status.start_sequence,
        metrics=status.metrics,
        from_step=order.from_step if order else 0.0,
        parked_s=status.parked_s,
        resumed_s=status.resumed_s,
        parked_seconds=status.parked_seconds,
        parked_gib=status.parked_gib,
        parking_problem=status.parking_problem,
        park_way=order.park_way if order else "",
        park_why=order.park_why if order else "",
        paced_s=since_s,
        paced_steps=since_steps or 0.0,
        saves=status.saves,
        saving_problem=status.saving_problem,
        safe_seconds=status.safe_seconds,
    )


def held(status: AttemptStatus) -> rules.TrackedAttempt:
    """What was told of an attempt as the rules see it. Only its supervisor knows its lease."""
    return rules.TrackedAttempt(
        attempt=status.attempt,
        sequence=status.sequence,
        start_sequence=status.start_sequence,
        state=RUNNING if status.state == STARTING else status.state,
        asked=status.asked,
        outcome=status.outcome,
    )
