"""How an attempt ended, and the lines about its start and end in the log."""

import signal
from collections.abc import Collection

from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import FAILED, FINISHED, KILL, LEASE, LOST, PARKED, YIELDED

EXIT_YIELDED = 75
"""EX_TEMPFAIL: the job has saved its state and is to be started again."""


def outcome_of(exit_code: int, asked: str | None, *, signalled: bool, done: bool) -> str:
    """Return the outcome of an exit code. `signalled`: whether the job was running when it was asked to stop. `done`: whether its
    steps show that it has finished.

    Many scripts save and exit with 0 when they are asked to stop. After that, an exit code of 0 ends a job only if its steps
    show that it is done. An exit after a request to stop is never a failure.
    """
    if exit_code == 0 and (done or not signalled):
        return FINISHED
    if asked == KILL:
        return LOST
    if asked is not None or exit_code == EXIT_YIELDED:
        return YIELDED
    return FAILED


def exit_code_of(main: int | None, stop_signal: int, adopted: Collection[int], *, killed: bool) -> int:
    """Return the exit code of the main process. If that was a shell that died of the stop signal, return the exit code of the
    process that it ran. `adopted`: exit codes of processes that it left behind."""
    code = -1 if main is None else main
    if code == -stop_signal and EXIT_YIELDED in adopted:
        return EXIT_YIELDED
    return 0 if code == -stop_signal and not killed and max(adopted, default=-1) == 0 else code


def is_done(status: AttemptStatus) -> bool:
    """Return whether its steps show that the job has finished."""
    return status.steps_total is not None and status.steps_done >= status.steps_total


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_number(name: str) -> signal.Signals:
    """Return the signal of a name, with or without SIG; SIGTERM if the name is unknown."""
    name = name.upper()
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        return signal.SIGTERM


def _how(exit_code: int | None) -> str:
    """Return the text after `failed`."""
    if exit_code is None or exit_code >= 0:
        return f" with exit code {exit_code}"
    return f": killed by {signal_name(-exit_code)}"


def start_text(gpus_text: str, attempt: int, from_step: float) -> str:
    verb = "resumed" if from_step > 0 else "started"
    return f"{verb} on {gpus_text} (attempt {attempt}, from step {from_step:,.0f})"


def end_of(
    status: AttemptStatus, code: int, left: str, *, signalled: bool, resizing: bool, stood_still: bool
) -> tuple[str, str | None]:
    """Return the outcome of an attempt that ended with this exit code, and the problem in words. `left`: processes that could not
    be ended; `resizing`: whether it was to be started again; `stood_still`: whether its supervisor stood still."""
    outcome = outcome_of(code, status.stop_reason, signalled=signalled, done=is_done(status))
    if status.damaged_mib is not None:
        outcome, left = LOST if outcome == FAILED else outcome, left or damage_text(status.damaged_mib)
    if outcome == FAILED and resizing:
        outcome, left = LOST, left or f"it was to save and be started again, and left with exit code {code}"
    elif outcome == FAILED and status.state == PARKED:  # parked or being resumed, so it did not fail by itself
        outcome, left = LOST, left or f"it died while it was parked ({code})"
    if stood_still:
        left = left or "its supervisor stood still when its lease ended"
    return outcome, left or status.problem


def damage_text(mib: int) -> str:
    return f"{mib:,} MiB of its GPU memory came back different after it was parked"


def parked_text(steps_done: float, gib: float) -> str:
    return f"parked at step {steps_done:,.0f}" + (f", {gib:.1f} GiB of its GPU memory on the host" if gib else "")


def requested_text(number: int) -> str:
    return f"asked to save and stop; messages about {signal_name(number)} below are the job's own"


def worked_seconds(attempt: AttemptStatus, until_s: float | None = None) -> float:
    """Return how long it ran until this instant, by default its end, without its time parked; 0 if it was never started."""
    until_s = attempt.ended_s if until_s is None else until_s
    if attempt.started_s is None or until_s is None:
        return 0.0
    return max(until_s - attempt.started_s - attempt.parked_seconds, 0.0)


def lost_seconds(attempt: AttemptStatus) -> float:
    """Return how much of its work is lost, in seconds: all since its state was last saved."""
    if attempt.outcome == FINISHED or (attempt.outcome == YIELDED and attempt.exit_code in (0, EXIT_YIELDED)):
        return 0.0
    if attempt.stepped_s is not None and attempt.steps_saved >= attempt.steps_done:
        return 0.0  # it has saved: a launcher of ranks has an exit code of its own
    return max(worked_seconds(attempt) - attempt.safe_seconds, 0.0)


def length_text(seconds: float) -> str:
    """`2h10m`, `3m20s`, `9s`, `0.4s`."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if minutes else f"{rest}s"
    return f"{minutes // 60}h{minutes % 60}m"


def _where(status: AttemptStatus) -> str:
    """Return how far the job was, and how much is lost: in time, and in steps if it reported any."""
    lost = lost_seconds(status)
    if status.stepped_s is None:
        said = f"{length_text(lost)} of work lost" if lost else "no work lost"
        return f"after {length_text(worked_seconds(status))}, {said}"
    steps = max(0.0, status.steps_done - status.steps_saved)
    noun = "step" if round(steps) == 1 else "steps"
    return f"at step {status.steps_done:,.0f}, {steps:,.0f} {noun} lost" + (f" ({length_text(lost)} of work)" if steps else "")


def end_text(status: AttemptStatus) -> str:
    """Return the text of the marker line at the end of an attempt."""
    if status.outcome == FINISHED:
        return "finished"
    if status.outcome == FAILED:
        # Without a process it was never started, and the problem says why.
        return f"failed: {status.problem}" if status.pid is None else f"failed{_how(status.exit_code)}"
    where = _where(status)
    if status.outcome == YIELDED:
        verb = "suspended" if status.stop_reason else "yielded"
        said = ["lease over"] * (status.stop_reason == LEASE) + ["exit code 0 after it was asked to stop"] * (
            status.exit_code == 0
        )
        said += [f"its state could not be saved: {status.saving_problem}"] * bool(status.saving_problem and lost_seconds(status))
        return f"{verb} {where}" + (f" ({', '.join(said)})" if said else "")
    return f"killed {where}" if status.stop_reason == KILL else f"lost {where}: {status.problem}"
