"""Options of `#SBATCH` lines: which field of a job spec each one sets, and which are ignored or refused, with the reason.

An option is ignored if the job is still the same job without it. It is refused if the job would be a different one. To support
another option, change its line in the table.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from rota.model.job import MAX_PRIORITY

NODES, TASKS, GPUS, PER_NODE, PER_TASK = "--nodes", "--ntasks", "--gpus", "--gpus-per-node", "--gpus-per-task"
"""Counts from which the number of GPUs follows. They are not fields of a spec."""
_TIME = re.compile(r"(?:(\d+)-(\d+)(?::(\d+)(?::(\d+))?)?|(\d+)(?::(\d+)(?::(\d+))?)?)", re.ASCII)
_NO_LIMIT = ("UNLIMITED", "INFINITE", "0")
_WHEN = {"afterok": "ok", "afterany": "ended", "afternotok": "failed"}
_JOB = re.compile(r"\d{1,15}(_\d{1,10})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Takes(Enum):
    """Whether an option has a value."""

    VALUE = auto()
    NOTHING = auto()
    MAYBE = auto()


class Directive(NamedTuple):
    """An option of sbatch."""

    names: tuple[str, ...]
    """Long name, then the letter, both without dashes."""
    read: Callable[[str], Mapping[str, Any]] | None = None
    """Function that returns the fields or counts of a value; None if no field has the value."""
    ignored: str = ""
    """Why the option has no effect; empty if it has one."""
    refused: str = ""
    """Why a job with this option is refused; empty if it is not."""
    hint: str = ""
    """What to write instead of a refused option."""
    takes: Takes = Takes.VALUE


def _field(name: str, read: Callable[[str], Any] = str) -> Callable[[str], Mapping[str, Any]]:
    return lambda text: {name: read(text)}


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("is not a whole number above 0")
    return int(text)


def _gpu_count(name: str) -> Callable[[str], Mapping[str, Any]]:
    """Return a reader of `N` and `TYPE:N`."""

    def read(text: str) -> Mapping[str, Any]:
        kind, colon, count = text.rpartition(":")
        return {name: _count(count), **({"accelerators": [kind]} if colon else {})}

    return read


def _gres(text: str) -> Mapping[str, Any]:
    """Read `gpu`, `gpu:N`, `gpu:TYPE` and `gpu:TYPE:N`."""
    parts = re.sub(r"\(.*\)$", "", text).split(":")
    if parts[0] != "gpu" or len(parts) > 3 or "," in text:
        raise ValueError("is not a number of GPUs; Rota has no other generic resources")
    count = _count(parts.pop()) if parts[-1].isdecimal() else 1
    return {PER_NODE: count, **({"accelerators": parts[1:]} if len(parts) > 1 else {})}


def _time(text: str) -> Mapping[str, Any]:
    """Read `MINUTES[:SECONDS]`, `HOURS:MINUTES:SECONDS` and `DAYS-HOURS[:MINUTES[:SECONDS]]`."""
    if text.upper() in _NO_LIMIT:
        return {}
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError("is not a length of time of Slurm")
    if found[1] is not None:
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    else:
        parts = [int(part) for part in found.groups()[4:] if part is not None]
        days, (hours, minutes, seconds) = 0, {1: (0, *parts, 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
    return {"max_run_time": ((days * 24 + hours) * 60 + minutes) * 60 + seconds}


def _dependency(text: str) -> Mapping[str, Any]:
    """Read `afterok:JOB[:JOB]`, `afterany:JOB` and `afternotok:JOB`, with commas between them."""
    found = []
    for part in text.split(","):
        how, *jobs = part.split(":")
        if how not in _WHEN or not jobs or not all(_JOB.fullmatch(job) for job in jobs):
            raise ValueError("is not a dependency that Rota has: afterok, afterany or afternotok with jobs")
        found += [{"job": int(job) if job.isdecimal() else job, "when": _WHEN[how]} for job in jobs]
    return {"after": found}


def _priority(text: str) -> Mapping[str, Any]:
    if not re.fullmatch(r"-?\d+", text, re.ASCII) or abs(int(text)) > MAX_PRIORITY:
        raise ValueError(f"is not a priority of Rota, from -{MAX_PRIORITY} to {MAX_PRIORITY}")
    return {"priority": int(text)}


def _export(text: str) -> Mapping[str, Any]:
    """Read `ALL`, `NONE` and `NAME,NAME=VALUE`. Rota passes on the same few variables in all three cases."""
    names = [each for each in text.split(",") if each not in ("ALL", "NONE", "NIL")]
    pairs = [each.partition("=") for each in names]
    if any(not _NAME.fullmatch(name) for name, _, _ in pairs):
        raise ValueError("is not a list of variables")
    return {"env": {name: value if equals else None for name, equals, value in pairs}} if pairs else {}


def _signal(text: str) -> Mapping[str, Any]:
    """Read `[B:]TERM[@SECONDS]`."""
    found = re.fullmatch(r"(?:[RB]+:)?(?:SIG)?(\w+?)(?:@(\d+))?", text)
    if found is None or found[1] not in ("TERM", "15"):
        raise ValueError("is not SIGTERM, the signal that Rota sends when a job must give up its GPUs")
    return {"checkpoint": {"grace": max(int(found[2] or 60), 1)}}


def _memory(text: str) -> Mapping[str, Any]:
    """Read `N[K|M|G|T]`, megabytes by default. 0 is all memory of a node, which limits nothing."""
    found = re.fullmatch(r"(\d{1,12})([KMGT])?B?", text.upper(), re.ASCII)
    if found is None:
        raise ValueError("is not a memory size of Slurm")
    gib = int(found[1]) * 1024.0 ** ("KMGT".index(found[2] or "M") - 2)
    return {"memory": gib} if gib else {}


START_TASKS = "srun starts tasks, and Rota runs the script once on each node; start more processes with torchrun"
"""Note on options of tasks."""
_NO_CPUS = "write #ROTA cpus: N, for the whole job"
_NO_MEMORY = "write #SBATCH --mem=SIZE, for each node"
_NO_TASK_PLACES = "Rota does not bind tasks"
_LOGS = "the output is in rota logs"
_NO_MAIL = "write #ROTA notify, for a message to a webhook"
_ONE_CLUSTER = "Rota has one set of GPUs"
_ANY_NODE = "Rota chooses the nodes"

DIRECTIVES = (
    Directive(("job-name", "J"), _field("name")),
    Directive(("gres",), _gres),
    Directive(("gpus", "G"), _gpu_count(GPUS)),
    Directive(("gpus-per-node",), _gpu_count(PER_NODE)),
    Directive(("gpus-per-task",), _gpu_count(PER_TASK)),
    Directive(("nodes", "N"), _field(NODES, _count)),
    Directive(("ntasks", "n"), _field(TASKS, _count), START_TASKS),
    Directive(("chdir", "D"), _field("workdir")),
    Directive(("account", "A"), _field("tenant")),
    Directive(("deadline",), _field("deadline")),
    Directive(("export",), _export),
    Directive(("signal",), _signal),
    Directive(("requeue",), lambda _: {}, takes=Takes.NOTHING),
    Directive(("time", "t"), _time),
    Directive(("dependency", "d"), _dependency),
    Directive(("array", "a"), _field("array")),
    Directive(("priority",), _priority),
    Directive(("mem",), _memory),
    Directive(("time-min",), ignored="Rota does not shorten the time limit of a job"),
    Directive(("nice",), ignored="the policy of the scheduler decides the order", takes=Takes.MAYBE),
    Directive(("hold", "H"), refused="Rota holds only submitted jobs", hint="rota hold JOB afterwards", takes=Takes.NOTHING),
    Directive(("begin", "b"), refused="Rota does not start jobs at a time", hint="submit the job later"),
    Directive(("output", "o"), ignored=_LOGS),
    Directive(("error", "e"), ignored=_LOGS),
    Directive(("open-mode",), ignored=_LOGS),
    Directive(("input", "i"), refused="jobs have no standard input", hint="read the file in the script"),
    Directive(("no-requeue",), ignored="Rota may suspend the job and run the script again", takes=Takes.NOTHING),
    Directive(("exclusive",), ignored="a job's GPUs are its own, and its node is not", takes=Takes.MAYBE),
    Directive(("oversubscribe", "s"), ignored="a job's GPUs are its own", takes=Takes.NOTHING),
    Directive(("partition", "p"), ignored=_ONE_CLUSTER),
    Directive(("qos", "q"), ignored="the policy of the scheduler decides the order"),
    Directive(("clusters", "M"), ignored=_ONE_CLUSTER),
    Directive(("wckey",), ignored="Rota does not count by such keys"),
    Directive(("comment",), ignored="it is for readers"),
    Directive(("mail-type",), ignored=_NO_MAIL),
    Directive(("mail-user",), ignored=_NO_MAIL),
    Directive(("cpus-per-task", "c"), ignored=_NO_CPUS),
    Directive(("cpus-per-gpu",), ignored=_NO_CPUS),
    Directive(("mincpus",), ignored=_NO_CPUS),
    Directive(("mem-per-cpu",), ignored=_NO_MEMORY),
    Directive(("mem-per-gpu",), ignored=_NO_MEMORY),
    Directive(("tmp",), ignored="Rota does not count disk space"),
    Directive(("ntasks-per-node",), ignored=START_TASKS),
    Directive(("ntasks-per-gpu",), ignored=START_TASKS),
    Directive(("ntasks-per-socket",), ignored=START_TASKS),
    Directive(("ntasks-per-core",), ignored=START_TASKS),
    Directive(("distribution", "m"), ignored=_NO_TASK_PLACES),
    Directive(("gpu-bind",), ignored=_NO_TASK_PLACES),
    Directive(("hint",), ignored=_NO_TASK_PLACES),
    Directive(("threads-per-core",), ignored=_NO_TASK_PLACES),
    Directive(("sockets-per-node",), ignored=_ANY_NODE),
    Directive(("cores-per-socket",), ignored=_ANY_NODE),
    Directive(("contiguous",), ignored=_ANY_NODE, takes=Takes.NOTHING),
    Directive(("switches",), ignored=_ANY_NODE),
    Directive(("get-user-env",), ignored="Rota passes on PATH, HOME and a few others", takes=Takes.MAYBE),
    Directive(("export-file",), refused="Rota reads no file of variables", hint="#SBATCH --export=NAME=VALUE"),
    Directive(("propagate",), ignored="a job has the limits of the scheduler", takes=Takes.MAYBE),
    Directive(("overcommit", "O"), ignored=START_TASKS, takes=Takes.NOTHING),
    Directive(("no-kill", "k"), ignored="Rota runs the job again if a node is lost", takes=Takes.MAYBE),
    Directive(("kill-on-invalid-dep",), ignored="Rota cancels a job that can never start"),
    Directive(("quiet", "Q"), ignored="rota submit has -o json", takes=Takes.NOTHING),
    Directive(("verbose", "v"), ignored="the details are in rota show", takes=Takes.NOTHING),
    Directive(("parsable",), ignored="rota submit has -o json", takes=Takes.NOTHING),
    Directive(("wait", "W"), refused="a submission does not wait", hint="rota wait JOB", takes=Takes.NOTHING),
    Directive(("test-only",), refused="a submission is not a trial", hint="rota check SCRIPT", takes=Takes.NOTHING),
    Directive(("constraint", "C"), refused="Rota's nodes have no features", hint="#ROTA accelerators: [A100]"),
    Directive(("nodelist", "w"), refused=_ANY_NODE, hint="#ROTA accelerators: [A100] chooses by type"),
    Directive(("nodefile", "F"), refused=_ANY_NODE, hint="#ROTA accelerators: [A100] chooses by type"),
    Directive(("exclude", "x"), refused=_ANY_NODE, hint="#ROTA accelerators: [A100] chooses by type"),
    Directive(
        ("reservation",),
        refused="a job uses the reservations of its tenant and its user without this line",
        hint="take the line out",
    ),
    Directive(("licenses", "L"), refused="Rota does not count licences", hint="take the line out"),
    Directive(("container",), refused="Rota does not start containers", hint="start it in the script"),
    Directive(("uid",), refused="a job runs as the user who submits it", hint="take the line out"),
    Directive(("gid",), refused="a job runs as the user who submits it", hint="take the line out"),
)
"""Options of sbatch: first those that have an effect, then those of features that Rota lacks, then the others."""

BY_NAME: Mapping[str, Directive] = {name: each for each in DIRECTIVES for name in each.names}


def gpus_of(counts: Mapping[str, int]) -> tuple[int | None, str]:
    """Return the number of GPUs that follows from the counts, and the option that gives it; None if no count is of GPUs. Raise
    ValueError if a count is missing."""
    if GPUS in counts:
        return counts[GPUS], GPUS
    if PER_NODE in counts:
        return counts[PER_NODE] * counts.get(NODES, 1), PER_NODE
    if PER_TASK not in counts:
        return None, ""
    if TASKS not in counts:
        raise ValueError("is for each task, and the number of tasks is not given")
    return counts[PER_TASK] * counts[TASKS], PER_TASK
