"""Files that an agent and a supervisor write for each other: launch.json and status.json.

The records are named tuples and not data classes, because the module for those takes longer to load than the rest of a
supervisor. A missing field takes its default and an unknown one is ignored, so a supervisor and a daemon of different versions
can read each other's files. Earlier versions wrote an empty text for none.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from rota.agent import constants, rules
from rota.agent.constants import ENDED, RUNNING, STARTING
from rota.agent.disk import LAUNCH, STATUS, write_atomic
from rota.agent.log import LIMIT_BYTES
from rota.agent.pace import Pace
from rota.agent.processes import boot_s
from rota.folders import read_file

MAX_SECONDS = 1e9
"""Stands for "never" where JSON cannot carry infinity, in seconds."""


class LaunchOrder(NamedTuple):
    """What to run: the order for one attempt on one machine, in a driver's message and in launch.json."""

    job: int
    attempt: int
    sequence: int
    argv: Sequence[str]
    env: Mapping[str, str]
    """All variables of the job. The agent adds `ROTA_LIFE` and its supervisor `ROTA_RUN_DIR`."""
    workdir: str
    log: Path | str
    gpus_text: str
    """Placement for people, such as `n1:0-1`."""
    from_step: float
    lease_seconds: float
    """Length of the lease from `written_boot_s`; in a driver's message, the instant at which it ends on the node's clock."""
    grace_seconds: float
    """Time between the signal and SIGKILL when the job is suspended."""
    lease_grace_seconds: float
    """Maximum time between the signal and SIGKILL when the lease has ended."""
    boot_id: str = ""
    """Boot in which the order was written. The order is void in any other."""
    written_boot_s: float = 0.0
    """Time of writing, on the clock that counts from boot. The lease starts here, however late the supervisor is."""
    signal: str = "SIGTERM"
    progress: str | None = None
    """Pattern for the output, with one or two groups: step, total; None if steps are not read."""
    steps_total: float | None = None
    log_bytes: int = LIMIT_BYTES
    """Maximum size of the log on disk."""
    clock_origin_s: float | None = None
    """The daemon's clock when the machine was booted; None if instants are those of the wall clock."""
    park_method: str | None = None
    """Park method (`rota/park/park_method.py`) that the node chose at the start; None if it did not."""
    park_reason: str | None = None
    """Reason for the park method."""
    may_park: bool | None = None
    """Whether the job may be parked, if the node is to choose the park method; None if the job keeps its GPUs until it ends."""
    most_gpus: float = 1
    """Largest number of GPUs that the job accepts."""
    mps: bool = False
    """Whether the job runs under NVIDIA MPS."""
    stays: bool = False
    """Whether the job is not known to save its state. If it can't be parked, it keeps running until a session reports that it
    saves."""
    uid: int | None = None
    """Unix user of the job; None for the user of the agent."""


class AttemptStatus(NamedTuple):
    """What is known of an attempt: status.json, a node's report to the scheduler, and the scheduler's own view.

    Instants are Unix time (`unix_s`), except those on the clock that counts from boot.
    """

    job: int
    attempt: int
    sequence: int
    """Highest sequence of the commands that it has received."""
    state: str
    """starting, running, parked or ended."""
    pid: int | None = None
    session: int | None = None
    started_s: float | None = None
    """Start of its process."""
    steps_done: float = 0.0
    steps_total: float | None = None
    steps_saved: float = 0.0
    outcome: str | None = None
    exit_code: int | None = None
    """Exit code as Python has it, so -9 is death by signal 9; None if there never was a process, or its end was not seen."""
    stop_reason: str | None = None
    """Reason for which it was asked to stop: suspend, kill or lease."""
    ended_s: float | None = None
    problem: str | None = None
    """What went wrong; None if nothing did."""
    boot_id: str = ""
    written_boot_s: float = 0.0
    """Time of writing, on the clock that counts from boot. The session was the attempt's own at that time."""
    began_s: float | None = None
    """Time of its first step, or of the start of its process if it reports no steps; None before that."""
    stepped_s: float | None = None
    """Time at which `steps_done` was reached; None if it has reported no step."""
    start_sequence: int = 0
    """Sequence of the command that made it run as it does: its launch, or the last resume or resize."""
    metrics: dict[str, float] = {}  # noqa: RUF012  a named tuple has no factories; it is never changed
    """Latest numbers that the job has reported, such as its loss."""
    parked_s: float | None = None
    """Time at which it was parked; None if it is not parked."""
    resumed_s: float | None = None
    """Time at which it was last resumed."""
    parked_seconds: float = 0.0
    """Total time spent parked, in seconds, not counting the current park."""
    parked_gib: float = 0.0
    """GPU memory that the last park moved to the host, in GiB."""
    parking_problem: str | None = None
    """Why the last attempt to park it failed; None if it did not."""
    damaged_mib: int | None = None
    """GPU memory that came back different when it was resumed, in MiB, because of which it was ended; None if none did."""
    limits_problem: str | None = None
    """Why the limits of its CPUs and memory, or those of its user, are not enforced; None if they are, or it has none."""
    lease_s: float | None = None
    """End of the lease, on the clock that counts from boot; None in a file of an old version."""
    pace: Pace = Pace()
    """Where its pace is measured from."""
    saves: bool | None = None
    """Whether its session saves its state when it is asked to stop; None if no session has reported."""
    saving_problem: str | None = None
    """Why its last save failed; None if it succeeded."""
    safe_seconds: float = 0.0
    """Working time that the last save has made safe, in seconds."""
    launch_sequence: int = 0
    """Sequence of its launch."""
    gpus_text: str = ""
    """Placement for people, as in its order."""
    from_step: float = 0.0
    """Step from which it started."""
    park_method: str | None = None
    """Park method, as in its order."""
    park_reason: str | None = None
    """Reason for the park method, as in its order."""
    keeps_memory: bool = False
    """Whether the host memory that it takes when it is parked stays its own until it ends."""
    rank: int = 0
    """Position of its machine in the job's gang, from 0."""
    steps_problem: str | None = None
    """Why some reported steps do not count; set by the scheduler, and None if all count."""

    @property
    def reports_steps(self) -> bool:
        """Whether it has reported a step, in its output or through a session."""
        return self.stepped_s is not None

    @property
    def tracked(self) -> rules.TrackedAttempt:
        """The attempt as the rules see it. Only its supervisor knows its lease."""
        state = RUNNING if self.state == STARTING else self.state
        return rules.TrackedAttempt(
            self.attempt, self.sequence, self.start_sequence, state, stop_reason=self.stop_reason, outcome=self.outcome
        )


def starting(job: int, attempt: int, order: LaunchOrder | None) -> AttemptStatus:
    """Return the status before the supervisor has written anything."""
    if order is None:
        return AttemptStatus(job, attempt, sequence=0, state=STARTING)
    return AttemptStatus(
        job,
        attempt,
        order.sequence,
        STARTING,
        steps_done=order.from_step,
        steps_saved=order.from_step,
        steps_total=order.steps_total,
        boot_id=order.boot_id,
        start_sequence=order.sequence,
        launch_sequence=order.sequence,
        gpus_text=order.gpus_text,
        from_step=order.from_step,
        park_method=order.park_method,
        park_reason=order.park_reason,
        keeps_memory=order.env.get(constants.PARK_METHOD) == constants.PRELOAD,
        rank=int(order.env.get("NODE_RANK") or 0),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_file(path))
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    return value


OLD_FIELD_NAMES = {"asked": "stop_reason", "incarnation": "attempt", "park_way": "park_method", "park_why": "park_reason"}
"""Names that earlier versions wrote, whose supervisors may still run."""


def _known_fields(kind: type[LaunchOrder | AttemptStatus], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that this version knows, with the names of today, and without empty texts that stand for none."""
    plain = {OLD_FIELD_NAMES.get(name, name): value for name, value in plain.items()}
    none = {name for name, default in kind._field_defaults.items() if default is None and plain.get(name) == ""}
    return {name: plain[name] for name in kind._fields if name in plain and name not in none}


def read_order(folder: Path) -> LaunchOrder | None:
    """Return the order in a folder; None if it is missing or cannot be read."""
    return order_of(_read(folder / LAUNCH))


def order_of(plain: Mapping[str, Any]) -> LaunchOrder | None:
    """Return the order with these fields, of which a later version may have more; None if one is missing."""
    try:
        return LaunchOrder(**_known_fields(LaunchOrder, plain))
    except TypeError:
        return None


def write_order(folder: Path, order: LaunchOrder) -> None:
    write_atomic(folder, LAUNCH, json.dumps(order._asdict()).encode(), durable=True)


def read_status(folder: Path, order: LaunchOrder | None = None) -> AttemptStatus | None:
    """Return the status in a folder; None if it is missing or cannot be read, since a power cut may leave an empty file."""
    return status_of(_read(folder / STATUS), order)


def status_of(plain: Mapping[str, Any], order: LaunchOrder | None = None) -> AttemptStatus | None:
    """Return the status with these fields, of which a later version may have more; None if one is missing. Supervisors of
    earlier versions leave out what their order states."""
    known = _known_fields(AttemptStatus, plain)
    if not {"job", "attempt", "sequence", "state"} <= known.keys():
        return None
    if order is not None:
        known = starting(known["job"], known["attempt"], order)._asdict() | known
    known["pace"] = Pace(*known.get("pace", ()))
    known["start_sequence"] = known.get("start_sequence") or known.get("launch_sequence", 0)
    return AttemptStatus(**known)


def resized_order(order: LaunchOrder, env: Mapping[str, str | None], gpus_text: str) -> LaunchOrder:
    """Return the order for the same command on other GPUs. A variable without a value is removed."""
    merged: dict[str, str] = {name: value for name, value in {**order.env, **env}.items() if value is not None}
    return order._replace(env=merged, gpus_text=gpus_text)


def write_status(folder: Path, status: AttemptStatus) -> None:
    """Write status.json. Only an end has to survive a power cut, which ends everything else."""
    write_atomic(folder, STATUS, json.dumps(status._asdict()).encode(), durable=status.state == ENDED)


def unix_s(order: LaunchOrder | None, boot: str) -> float:
    """Return the time in this boot of the machine by the clock of the daemon that gave the order. That clock does not jump when
    the machine's time is set."""
    if order is None or order.clock_origin_s is None or order.boot_id != boot:
        return time.time()
    return order.clock_origin_s + boot_s()


def launch_command(order: LaunchOrder) -> rules.AgentCommand:
    """Return a written order as the rules see it. Its lease is on the clock that counts from boot."""
    lease_s = order.written_boot_s + order.lease_seconds
    return rules.AgentCommand(constants.LAUNCH, order.attempt, order.sequence, lease_s, order.boot_id)


def seconds(value: object) -> float | None:
    """Return a length of time from a datagram; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return float(min(max(value, 0.0), MAX_SECONDS))


def steps(value: object) -> float | None:
    """Return a number of steps from a datagram or a log; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        return None
    return float(value)


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value from a datagram is a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


MAX_TEXT_CHARS = 300


def plain_text(text: str) -> str:
    """Return a text from a datagram as one line without control characters, shortened if it is long."""
    line = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * MAX_TEXT_CHARS])
    line = " ".join(line.split())
    return line if len(line) <= MAX_TEXT_CHARS else line[: MAX_TEXT_CHARS - 1] + "…"


MAX_METRICS, MAX_METRIC_CHARS = 16, 40


def metrics(value: object) -> dict[str, float]:
    """Return the metrics in a datagram: the first entries with a readable name and a finite number."""
    found = {}
    for name, number in value.items() if isinstance(value, dict) else ():
        plain = isinstance(number, int | float) and not isinstance(number, bool) and abs(number) <= sys.float_info.max
        if plain and isinstance(name, str) and name.isprintable() and 0 < len(name) <= MAX_METRIC_CHARS:
            found[name] = float(number)
        if len(found) == MAX_METRICS:
            break
    return found
