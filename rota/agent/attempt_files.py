"""What an agent and a supervisor write for each other: launch.json and status.json.

Named tuples, not data classes: a supervisor is to be up in a moment, and the module for those takes longer to load than all
the rest. Fields that are missing take their default and unknown ones are passed over, so that a supervisor and a daemon of
another version understand each other.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from rota.agent import constants, rules
from rota.agent.constants import ENDED, STARTING
from rota.agent.disk import LAUNCH, STATUS, write_atomic
from rota.agent.log import LIMIT_BYTES
from rota.agent.pace import Pace
from rota.agent.processes import boot_s
from rota.folders import read_file

LONGEST_SECONDS = 1e9
"""A length of time that stands for ever, and is a number in JSON."""


class LaunchOrder(NamedTuple):
    """What to run: the order for one attempt on one machine, as a driver gives it and as launch.json has it."""

    job: int
    attempt: int
    sequence: int
    argv: Sequence[str]
    env: Mapping[str, str]
    """All variables of the job. The agent adds `ROTA_LIFE`, its supervisor `ROTA_RUN_DIR`, and nothing else."""
    workdir: str
    log: Path | str
    gpus_text: str
    """Where it runs, for people: `n1:0-1`."""
    from_step: float
    lease_seconds: float
    """Counted from `written_boot_s`; in a driver's message, the instant at which the lease ends on the node's clock."""
    grace_seconds: float
    """Time between the signal and SIGKILL when the job is suspended."""
    lease_grace_seconds: float
    """Time between the signal and SIGKILL when the lease is over, if that is less."""
    boot_id: str = ""
    """The boot in which the order was written; in another it means nothing."""
    written_boot_s: float = 0.0
    """When it was written, on the clock that counts from boot: the lease runs from here, however late the supervisor is."""
    signal: str = "SIGTERM"
    progress: str = ""
    """A pattern on the output with one or two groups: step, total."""
    steps_total: float | None = None
    log_bytes: int = LIMIT_BYTES
    """The most that the log takes on disk."""
    clock_origin_s: float | None = None
    """What the daemon's clock said when the machine was booted; None: instants are those of the wall clock."""
    park_way: str = ""
    """How the job is parked (`rota/park/park_method.py`), if that was found where it is started; empty: it was found before."""
    park_why: str = ""
    """Why it is parked so."""
    stays: bool = False
    """Whether the job is not known to save its state: if it can't be parked it keeps running, until a session says that it
    saves."""


class StatusFile(NamedTuple):
    """status.json."""

    job: int
    attempt: int
    sequence: int
    """The highest of the commands it has seen."""
    state: str
    pid: int | None = None
    session: int | None = None
    started_s: float | None = None
    """When its process was started; Unix time (`unix_s`), as `began_s`, `stepped_s` and `ended_s`."""
    steps_done: float = 0.0
    steps_total: float | None = None
    steps_saved: float = 0.0
    outcome: str | None = None
    exit_code: int | None = None
    """As Python has it: -9 is death by signal 9."""
    asked: str | None = None
    ended_s: float | None = None
    problem: str = ""
    boot_id: str = ""
    written_boot_s: float = 0.0
    """When this was written, on the clock that counts from boot: its session was its own then."""
    began_s: float | None = None
    """When it began to work: with its first step, or, if it tells no steps, with its process. None: not yet."""
    stepped_s: float | None = None
    """When `steps_done` came to be what it is: when the output that says so came. None: it has told no step."""
    start_sequence: int = 0
    """That of the command that made it run as it does: its launch (0), or the last resize."""
    metrics: dict[str, float] = {}  # noqa: RUF012  a named tuple has no factories; it is never changed
    """The latest numbers that the job told, such as its loss."""
    parked_s: float | None = None
    """When it fell asleep, while it sleeps; Unix time, as `resumed_s`."""
    resumed_s: float | None = None
    """When it was last woken."""
    parked_seconds: float = 0.0
    """How long it has slept in all, this time not counted."""
    parked_gib: float = 0.0
    """What its GPUs gave to the host when it was last parked."""
    parking_problem: str = ""
    """Why it could not be parked, when that was last tried."""
    lease_s: float | None = None
    """End of the lease that its supervisor knows of, on the clock that counts from boot; None: written by an older version."""
    pace: Pace = Pace()
    """Where its pace is measured from."""
    saves: bool | None = None
    """Whether its session says that it saves its state when it is asked to stop; None: no session has said anything."""
    saving_problem: str = ""
    """Why its state could not be saved, when that was last tried; empty: it could."""
    safe_seconds: float = 0.0
    """How long it had worked when its state was last saved; 0: not since it was started."""


def starting(job: int, attempt: int, order: LaunchOrder | None) -> StatusFile:
    """How it is before its supervisor has written anything."""
    if order is None:
        return StatusFile(job, attempt, sequence=0, state=STARTING)
    return StatusFile(
        job,
        attempt,
        order.sequence,
        STARTING,
        steps_done=order.from_step,
        steps_saved=order.from_step,
        steps_total=order.steps_total,
        boot_id=order.boot_id,
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(read_file(path))
    except (OSError, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    if "incarnation" in value:  # written by an earlier version, whose supervisors may still run
        value["attempt"] = value.pop("incarnation")
    return value


def read_order(folder: Path) -> LaunchOrder | None:
    """None: not there, or not to be read."""
    return order_of(_read(folder / LAUNCH) or {})


def order_of(plain: Mapping[str, Any]) -> LaunchOrder | None:
    """Return the order with these fields, of which a later version may have more; None: one is missing."""
    try:
        return LaunchOrder(**{name: plain[name] for name in LaunchOrder._fields if name in plain})
    except TypeError:
        return None


def write_order(folder: Path, order: LaunchOrder) -> None:
    write_atomic(folder, LAUNCH, json.dumps(order._asdict()).encode(), durable=True)


def read_status(folder: Path) -> StatusFile | None:
    """None: not there, or not to be read (a power cut may leave an empty file)."""
    value = _read(folder / STATUS) or {}
    try:
        return StatusFile(**{name: value[name] for name in StatusFile._fields if name in value})
    except TypeError:
        return None


def anew_order(order: LaunchOrder, message: dict[str, Any]) -> LaunchOrder | None:
    """The order with the variables and GPUs of a message, for the same command; None: that names no variables. A variable without
    a value is taken away."""
    changed, where = message.get("env"), message.get("gpus_text")
    if not isinstance(changed, dict) or not isinstance(where, str):
        return None
    if not all(value is None or isinstance(value, str) for value in changed.values()):
        return None
    env: dict[str, str] = {name: value for name, value in {**order.env, **changed}.items() if value is not None}
    return order._replace(env=env, gpus_text=where)


def write_status(folder: Path, status: StatusFile) -> None:
    """Only an end has to survive a power cut: what ran is gone with the power."""
    write_atomic(folder, STATUS, json.dumps(status._asdict()).encode(), durable=status.state == ENDED)


def unix_s(order: LaunchOrder | None, boot: str) -> float:
    """Now, in this boot of the machine, by the clock of the daemon that gave the order: it does not jump when somebody sets the
    time of the machine."""
    if order is None or order.clock_origin_s is None or order.boot_id != boot:
        return time.time()
    return order.clock_origin_s + boot_s()


def launch_instruction(order: LaunchOrder) -> rules.AgentCommand:
    """A written order as the rules see it. Its lease is on the clock that counts from boot."""
    lease_s = order.written_boot_s + order.lease_seconds
    return rules.AgentCommand(constants.LAUNCH, order.attempt, order.sequence, lease_s, order.boot_id)


def seconds(value: object) -> float | None:
    """A length of time out of a datagram, or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(min(max(value, 0.0), LONGEST_SECONDS))


def steps(value: object) -> float | None:
    """A number of steps out of a datagram or a log, or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def is_count(value: object) -> TypeGuard[int]:
    """A whole number that is not negative, out of a datagram."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


LONGEST_TEXT = 300


def plain_text(text: str) -> str:
    """A text out of a datagram as one line that steers no terminal, cut if it is long."""
    line = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * LONGEST_TEXT])
    line = " ".join(line.split())
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 1] + "…"


MOST_METRICS, LONGEST_METRIC = 16, 40


def metrics(value: object) -> dict[str, float]:
    """Names and numbers out of a datagram: the first few that are names people can read, and numbers."""
    found = {}
    for name, number in value.items() if isinstance(value, dict) else ():
        plain = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        if plain and isinstance(name, str) and name.isprintable() and 0 < len(name) <= LONGEST_METRIC:
            found[name] = float(number)
        if len(found) == MOST_METRICS:
            break
    return found
