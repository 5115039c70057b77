"""Phases of a job: the table of legal changes, and what may keep a job from being scheduled."""

from rota.errors import IllegalTransition
from rota.model.job import Phase

_AFTER_ATTEMPT = {Phase.QUEUED, Phase.CHECKPOINTED, Phase.FINISHED, Phase.FAILED}
"""Phases of a job whose attempt has ended."""
_STOPPED = {Phase.STOPPING, Phase.UNREACHABLE, *_AFTER_ATTEMPT}
"""Phases that may follow every phase of an attempt."""

LEGAL: dict[Phase, set[Phase]] = {
    Phase.QUEUED: {Phase.STARTING, Phase.CANCELLED},
    Phase.CHECKPOINTED: {Phase.STARTING, Phase.CANCELLED},
    Phase.STARTING: {Phase.RUNNING, *_STOPPED},
    Phase.RUNNING: {Phase.SUSPENDING, Phase.RESIZING, *_STOPPED},
    Phase.SUSPENDING: {Phase.RUNNING, Phase.PARKED, *_STOPPED},
    Phase.PARKED: {Phase.STARTING, Phase.SUSPENDING, *_STOPPED},
    Phase.RESIZING: {Phase.RUNNING, Phase.SUSPENDING, *_STOPPED},
    Phase.STOPPING: {Phase.UNREACHABLE, Phase.CANCELLED, *_AFTER_ATTEMPT},
    Phase.UNREACHABLE: set(Phase) - {Phase.UNREACHABLE},
    Phase.FINISHED: set(),
    Phase.FAILED: set(),
    Phase.CANCELLED: set(),
}
"""Phases that may follow each phase. Any other change is a defect."""

TRANSITIONS = {(int(before), int(after)) for before, targets in LEGAL.items() for after in targets}
"""Legal changes as pairs of numbers."""

# Why a job may not be scheduled: bits of the column `blocks`.
HELD = 1
"""The user holds the job."""
PAUSED = 2
"""The job pauses after an attempt that failed."""
NEVER_FITS = 4
"""No node that has not left can run the job."""
HIDDEN = 8
"""A node of the attempt is unreachable."""
TO_KILL = 16
"""The attempt is to be killed."""
TO_CANCEL = 32
"""The job ends with its attempt, which is to be killed."""
ENDED = 64
"""The job has ended."""
TO_REQUEUE = 128
"""The attempt is to be saved and stopped. Then the job waits for GPUs again."""
OUT_OF_TIME = 256
"""The job has run for its longest run time. It saves its state, stops and ends as failed."""
AWAITS = 512
"""The job waits for other jobs to end."""
STAYS = 4096
"""The job runs on a GPU that an operator drains, and is not known to save its state: it keeps its GPUs until it ends."""

BLOCKS = {
    Phase.STOPPING: TO_KILL,
    Phase.UNREACHABLE: HIDDEN,
    Phase.FINISHED: ENDED,
    Phase.FAILED: ENDED,
    Phase.CANCELLED: ENDED,
}
"""Bits that a job gets with a phase."""
OF_ATTEMPT = HIDDEN | TO_KILL | TO_REQUEUE | STAYS
"""Bits that a job loses when its attempt has ended."""
ASKED_TO_STOP = HELD | TO_REQUEUE
"""Bits of a job whose user asked that it gives up its GPUs."""
LEAVES_FOR_STORAGE = TO_REQUEUE | OUT_OF_TIME
"""Bits of a job that is suspended to storage, even if it could be parked or is parked."""
WITH_ATTEMPT = {phase for phase, targets in LEGAL.items() if Phase.FINISHED in targets}
"""Phases of a job that has an attempt."""


def refuse(job: int, before: int, after: int) -> IllegalTransition:
    return IllegalTransition(f"job {job} cannot go from {Phase(before).label} to {Phase(after).label}")
