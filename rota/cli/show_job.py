"""`rota show`: show everything about one job."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rota.cli import common_flags as flag
from rota.model.counted import counted

if TYPE_CHECKING:
    from rota.wire.rows import JobRow, TrialRow

SHOWN_EVENTS = 4
"""Number of last events that are shown."""
_OTHERS = ("cpus", "memory", "workdir", "env", "progress", "profile", "deadline", "retries", "checkpoint")
"""Fields of the spec that other lines do not show."""


def show(job: flag.JobKey, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Show one job.

    Example: rota show 412
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.cli.offline import connect_or_read

    source = connect_or_read(home)
    row = source.job(job)
    if job_text.data(shaped, [row], single=True):
        return
    job_text.say(f"Job {job_text.title(row)}")
    for name, value in _facts(row):
        if value:
            job_text.say(f"  {name:<13}{value}")
    if row.array is not None:
        job_text.say(f"  {'each task':<13}rota jobs --tasks, rota show {row.id}_INDEX")
        return
    events = source.events(row.id)
    for number, event in enumerate(events[-SHOWN_EVENTS:]):
        head = "" if number else "history"
        job_text.say(f"  {head:<13}{job_text.clock(event.at)}  {job_text.clean(event.text)}")
    if len(events) > SHOWN_EVENTS:
        job_text.say(f"  {'':<13}all {len(events):,}: rota history {row.id}")


def _facts(row: "JobRow") -> Iterator[tuple[str, str]]:
    from rota.cli import job_text
    from rota.wire.rows import HOLDING

    yield "user", job_text.clean(row.user)
    yield "phase", " on ".join(filter(None, (job_text.phase(row), job_text.clean(job_text.holds(row)))))
    yield "tasks", job_text.tasks(row)
    if row.array is not None and row.array.at_once is not None:
        yield "at once", f"at most {counted(row.array.at_once, 'task')}"
    if row.array is None and row.array_id is not None:
        yield "array", f"{row.array_id}, index {row.array_index}"
    yield "because", job_text.REASONS.get(row.reason, row.reason) if row.reason else ""
    yield "wants", job_text.wants(row)
    if row.steps_done is not None or row.steps_total:
        steps = (
            f"{row.steps_done or 0:,.0f} of {counted(round(row.steps_total), 'step')}"
            if row.steps_total
            else counted(round(row.steps_done or 0), "step")
        )
        bar = job_text.progress(row) if job_text.done(row) is not None else ""
        yield "progress", "  ".join(filter(None, (bar, steps, job_text.speed(row))))
    yield "steps", job_text.clean(row.steps_problem)
    busy = "" if row.utilization is None else f"{row.utilization:.0%} busy alone"
    memory = "" if row.peak_gib is None else f"{row.peak_gib:.3g} GiB of memory on each at most"
    yield "GPUs", ", ".join(filter(None, (busy, memory)))
    yield "metrics", ", ".join(f"{job_text.clean(name)} {value:.6g}" for name, value in sorted(row.metrics.items()))
    if row.eta_seconds is not None and not row.ended:
        yield "left", job_text.length(row.eta_seconds) + ("" if row.phase in HOLDING else " of running, once it has GPUs")
    yield "weight", f"{row.weight:g}"
    yield "tenant", job_text.clean(row.tenant)
    yield "submitted", f"{job_text.clock(row.submitted_at)}  ({job_text.since(row.submitted_at)} ago)"
    if row.started_at:
        yield "started", f"{job_text.clock(row.started_at)}  (after {job_text.between(row.submitted_at, row.started_at)})"
    if row.finished_at:
        yield "ended", f"{job_text.clock(row.finished_at)}  (after {job_text.between(row.submitted_at, row.finished_at)})"
    yield "exit", job_text.ended_with(row) if row.ended else ""  # before that, the exit code is that of an earlier attempt
    yield "last change", job_text.clean(job_text.with_clocks(row.last_change or ""))
    used = f"{row.gpu_seconds / 3600:.3g} GPU-hours, {row.work_seconds / 3600:.3g} of work" if row.gpu_seconds else ""
    yield "used", used
    yield "suspensions", f"{row.suspensions}, {job_text.lost(row)}" if row.suspensions else ""
    yield "problem", job_text.clean(row.problem)
    yield "parking", job_text.clean(": ".join(filter(None, (row.park_method, row.park_reason))))
    yield "limits", job_text.clean(row.limits_problem)
    for trial in row.trials or ():
        yield "tried", _tried(trial)
    yield "command", job_text.clean(row.command)
    for name, value in (row.spec or {}).items():
        if name in _OTHERS and value not in (None, [], {}, 0):
            yield name, job_text.clean(job_text.with_clocks(_checkpoint(value) if name == "checkpoint" else _text(value)))


def _tried(trial: "TrialRow") -> str:
    """Return `14:03:12 joined 1 a: 20 -> 9 steps/s, its partner 10 -> 4 steps/s, gain -15%: reverted at 14:04:24`, with dates."""
    from rota.cli import job_text

    other = job_text.clean(f"{trial.partner} {trial.partner_name}".strip())
    who = f"joined {other}" if trial.joined else f"was joined by {other}"
    mine, its = (
        _rates(trial.exclusive_rate, trial.colocated_rate),
        _rates(trial.partner_exclusive_rate, trial.partner_colocated_rate),
    )
    said = f"{_at(trial.began_at)} {who}: {mine}, its partner {its}"
    if trial.gain is not None:
        said += f", gain {100 * trial.gain:+.0f}%"
    if trial.ended_at is None:
        return f"{said}: open, judged from {_at(trial.not_judged_before)} on"
    said += f": {trial.verdict} at {_at(trial.ended_at)}"
    if trial.pair_trials > 1 and trial.mean_gain is not None and trial.gain_stddev is not None:
        mean, spread = 100 * trial.mean_gain, 100 * trial.gain_stddev
        said += f" (such pairs, {trial.pair_trials} times: {mean:+.0f}%, give or take {spread:.0f}%)"
    return said


def _rates(before: float, after: float | None) -> str:
    return f"{before:.3g} steps/s alone" if after is None else f"{before:.3g} -> {after:.3g} steps/s"


def _at(moment: str) -> str:
    from rota.cli import job_text

    return job_text.clock(moment)


def _checkpoint(said: dict[str, Any]) -> str:
    """Return the checkpoint settings, such as `dir /srv/a, grace 60 s, saves its state`."""
    saves = {True: "saves its state", False: "does not save its state"}.get(said.get("saves"))  # type: ignore[arg-type]
    grace = f"grace {said['grace']:g} s" if said.get("grace") is not None else ""
    return ", ".join(filter(None, (f"dir {said['dir']}" if said.get("dir") else "", grace, saves)))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
