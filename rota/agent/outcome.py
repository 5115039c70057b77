"""How an incarnation ended, and the lines about its start and end in the log."""

import signal
from collections.abc import Collection

from rota.agent.constants import FAILED, FINISHED, KILL, LEASE, LOST, YIELDED
from rota.agent.records import Status

SAVED_AND_LEFT = 75
"""EX_TEMPFAIL: it saved its state and wants to go on later."""


def outcome_of(exit_code: int, asked: str | None, *, signalled: bool, done: bool) -> str:
    """`signalled`: it was told to stop and lived on to hear it; `done`: its steps show that it reached its end.

    Many scripts save and exit with 0 when they are told to stop, so after that an exit code of 0 ends a job only if its steps
    show that it is done. No end after being asked to stop is a failure.
    """
    if exit_code == 0 and (done or not signalled):
        return FINISHED
    if asked == KILL:
        return LOST
    if asked is not None or exit_code == SAVED_AND_LEFT:
        return YIELDED
    return FAILED


def exit_code_of(main: int | None, stop_signal: int, adopted: Collection[int], *, killed: bool) -> int:
    """That of the main process; or, of a shell that died of the signal to stop, that of what it ran. `adopted`: exits of what it
    left behind."""
    code = -1 if main is None else main
    if code == -stop_signal and SAVED_AND_LEFT in adopted:
        return SAVED_AND_LEFT
    return 0 if code == -stop_signal and not killed and max(adopted, default=-1) == 0 else code


def is_done(status: Status) -> bool:
    """Its steps show that it reached its end."""
    return status.steps_total is not None and status.steps_done >= status.steps_total


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_number(name: str) -> signal.Signals:
    """`USR2` and `SIGUSR2` are one; SIGTERM for a name that does not exist."""
    name = name.upper()
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        return signal.SIGTERM


def _how(exit_code: int | None) -> str:
    """After `failed`."""
    if exit_code is None or exit_code >= 0:
        return f" with exit code {exit_code}"
    return f": killed by {signal_name(-exit_code)}"


def start_text(gpus_text: str, incarnation: int, from_step: float) -> str:
    verb = "resumed" if from_step > 0 else "started"
    return f"{verb} on {gpus_text} (incarnation {incarnation}, from step {from_step:,.0f})"


def parked_text(steps_done: float, gib: float) -> str:
    return f"parked at step {steps_done:,.0f}" + (f", {gib:.1f} GiB of its GPU memory on the host" if gib else "")


def asked_text(number: int) -> str:
    return f"asked to save and stop; messages about {signal_name(number)} below are the job's own"


def end_text(status: Status) -> str:
    """What the marker line at the end of an incarnation says."""
    if status.outcome == FINISHED:
        return "finished"
    if status.outcome == FAILED:
        # Without a process it was never started, and the problem says why.
        return f"failed: {status.problem}" if status.pid is None else f"failed{_how(status.exit_code)}"
    where = f"at step {status.steps_done:,.0f}, {max(0.0, status.steps_done - status.steps_saved):,.0f} steps lost"
    if status.outcome == YIELDED:
        verb = "suspended" if status.asked else "yielded"
        said = ["lease over"] * (status.asked == LEASE) + ["exit code 0 after it was told to stop"] * (status.exit_code == 0)
        return f"{verb} {where}" + (f" ({', '.join(said)})" if said else "")
    return f"killed {where}" if status.asked == KILL else f"lost {where}: {status.problem}"
