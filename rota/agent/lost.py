"""The end of an attempt whose supervisor is gone: the agent writes it instead."""

from pathlib import Path

from rota.agent.attempt_files import AttemptStatus, LaunchOrder, read_status, unix_s, write_status
from rota.agent.constants import ATTEMPT_ID, ENDED, LOST, STARTING
from rota.agent.disk import COMPLAINTS, JOB_LOCK, SUPERVISOR_LOCK, TOMBSTONE, try_lock, unlock, write_atomic
from rota.agent.processes import ProcessIdentity, boot_id, end_all, other_user

WAIT_SECONDS = 0.2
"""Time for killed processes to be gone, in seconds. If it is too short, the next look continues."""


def declare_lost(
    folder: Path, order: LaunchOrder | None, last: AttemptStatus, *, seen_s: float, job_lives_on: bool, problem: str = ""
) -> AttemptStatus | None:
    """Return the final status; None if processes are still running, or a supervisor has it after all. Raise OSError of the disk.

    `last`: last known status. `seen_s`: when its session was last known to be its own. `job_lives_on`: whether another attempt of
    the job has a supervisor. That one has the job's lock then, which shows that this attempt let go of it.
    `problem`: why its supervisor is gone, if known.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # It may have been removed.
    lock = try_lock(folder / SUPERVISOR_LOCK)
    if lock is None:
        return None
    try:
        last = read_status(folder, order) or last
        if last.state == ENDED:
            return last
        write_atomic(folder, TOMBSTONE, b"", durable=True)
        # In another boot the numbers are those of strangers, and of ours nothing is left.
        same_boot = last.boot_id in {"", boot_id()}
        job_lock = None if job_lives_on else folder.parent / JOB_LOCK
        if same_boot and end_all(signs_of(order, last, seen_s), lock=job_lock, seconds=WAIT_SECONDS):
            return None
        what = "did not start it" if last.state == STARTING else "was killed"
        if not same_boot:
            problem = "the machine was restarted"
        problem = problem or f"its supervisor {what}{_complaint(folder)}"
        final = last._replace(state=ENDED, outcome=LOST, problem=problem, ended_s=unix_s(order, boot_id()))
        write_status(folder, final)
        return final
    finally:
        unlock(lock)


def signs_of(order: LaunchOrder | None, last: AttemptStatus, seen_s: float) -> ProcessIdentity:
    """Return how the processes of an attempt are recognised without its supervisor."""
    return ProcessIdentity(
        attempt_id=order.env.get(ATTEMPT_ID, "") if order else "",
        since_s=order.written_boot_s if order else 0.0,
        session=last.session,
        seen_s=max(seen_s, last.written_boot_s),
        uid=other_user(order.uid) if order else None,
    )


def _complaint(folder: Path) -> str:
    """Return the last line that the supervisor printed; empty if it had no trouble."""
    try:
        lines = (folder / COMPLAINTS).read_bytes()[-2_000:].decode(errors="replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1][:300]}" if said else ""
