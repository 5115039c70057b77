"""What is known of an attempt (`AttemptStatus`), and an order as it goes to disk."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from rota.agent import rules
from rota.agent.attempt_files import LaunchOrder, StatusFile, seconds, starting
from rota.agent.constants import ATTEMPT_ID, PARK_WAY, RUNNING, STARTING
from rota.agent.processes import boot_id, boot_s
from rota.park.park_method import PRELOAD


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
    keeps_memory: bool = False
    """Whether the host memory that it takes when it is parked stays its own."""

    @property
    def start_sequence(self) -> int:
        """That of the command that made it run as it does."""
        return self.change_sequence or self.launch_sequence

    @property
    def tells_steps(self) -> bool:
        """It has told where it is, in its output or by itself."""
        return self.stepped_s is not None


def on_disk(order: LaunchOrder) -> LaunchOrder:
    """Return an order as it goes to disk. The lease runs from here.

    The life is drawn here and overrides one that came along: a daemon that runs inside a job has that job's in its environment,
    and another home on this machine may count its jobs alike.
    """
    return order._replace(
        argv=list(order.argv),
        env={**order.env, ATTEMPT_ID: f"{order.job}.{order.attempt}.{secrets.token_hex(8)}"},
        workdir=str(Path(order.workdir).absolute()),
        log=str(Path(order.log).absolute()),
        from_step=float(order.from_step),
        boot_id=boot_id(),
        written_boot_s=boot_s(),
        lease_seconds=seconds(order.lease_seconds) or 0.0,
        grace_seconds=seconds(order.grace_seconds) or 0.0,
        lease_grace_seconds=seconds(order.lease_grace_seconds) or 0.0,
        steps_total=None if order.steps_total is None else float(order.steps_total),
    )


_OF_ORDER = ("gpus_text", "from_step", "park_way", "park_why")
_OF_STATUS = tuple({each.name for each in fields(AttemptStatus)} & {*StatusFile._fields} - {"job", "attempt"})
"""Fields of a status that are those of the order, and of status.json, under the same names."""


def attempt_status(job: int, attempt: int, order: LaunchOrder | None, status: StatusFile | None) -> AttemptStatus:
    """Return what is known of an attempt from its two files."""
    status = status or starting(job, attempt, order)
    since_s, since_steps = status.pace[1:3]  # a list, as JSON has it
    return AttemptStatus(
        job=job,
        attempt=attempt,
        **{name: getattr(status, name) for name in _OF_STATUS},
        **({name: getattr(order, name) for name in _OF_ORDER} if order is not None else {}),
        launch_sequence=order.sequence if order is not None else 0,
        change_sequence=status.start_sequence,
        paced_s=since_s,
        paced_steps=since_steps or 0.0,
        keeps_memory=order is not None and order.env.get(PARK_WAY) == PRELOAD,
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
