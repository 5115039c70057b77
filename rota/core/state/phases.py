"""The table of legal phase changes. A change that is not here is a defect, and says so."""

from rota.errors import IllegalTransition
from rota.model.job import Phase

LEGAL: dict[Phase, frozenset[Phase]] = {
    Phase.QUEUED: frozenset({Phase.STARTING, Phase.CANCELLED}),
    Phase.STARTING: frozenset(
        {
            Phase.RUNNING,
            Phase.QUEUED,
            Phase.CHECKPOINTED,
            Phase.STOPPING,
            Phase.UNREACHABLE,
            Phase.FINISHED,
            Phase.FAILED,
        }
    ),
    Phase.RUNNING: frozenset(
        {
            Phase.SUSPENDING,
            Phase.RESIZING,
            Phase.STOPPING,
            Phase.UNREACHABLE,
            Phase.QUEUED,
            Phase.CHECKPOINTED,
            Phase.FINISHED,
            Phase.FAILED,
        }
    ),
    Phase.SUSPENDING: frozenset(
        {
            Phase.RUNNING,
            Phase.PARKED,
            Phase.CHECKPOINTED,
            Phase.QUEUED,
            Phase.STOPPING,
            Phase.UNREACHABLE,
            Phase.FINISHED,
            Phase.FAILED,
        }
    ),
    Phase.PARKED: frozenset(
        {
            Phase.STARTING,
            Phase.SUSPENDING,
            Phase.STOPPING,
            Phase.QUEUED,
            Phase.CHECKPOINTED,
            Phase.UNREACHABLE,
            Phase.FINISHED,
            Phase.FAILED,
        }
    ),
    Phase.CHECKPOINTED: frozenset({Phase.STARTING, Phase.CANCELLED}),
    Phase.RESIZING: frozenset(
        {
            Phase.RUNNING,
            Phase.SUSPENDING,
            Phase.QUEUED,
            Phase.CHECKPOINTED,
            Phase.STOPPING,
            Phase.UNREACHABLE,
            Phase.FINISHED,
            Phase.FAILED,
        }
    ),
    Phase.STOPPING: frozenset(
        {Phase.QUEUED, Phase.CHECKPOINTED, Phase.FINISHED, Phase.FAILED, Phase.CANCELLED, Phase.UNREACHABLE}
    ),
    Phase.UNREACHABLE: frozenset(
        {
            Phase.STARTING,
            Phase.RUNNING,
            Phase.SUSPENDING,
            Phase.RESIZING,
            Phase.PARKED,
            Phase.STOPPING,
            Phase.QUEUED,
            Phase.CHECKPOINTED,
            Phase.FINISHED,
            Phase.FAILED,
            Phase.CANCELLED,
        }
    ),
    Phase.FINISHED: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.CANCELLED: frozenset(),
}

LEGAL_CODES = frozenset((int(a), int(b)) for a, targets in LEGAL.items() for b in targets)
"""The same table as pairs of numbers, for the one test every phase change makes."""


def refuse(job: int, before: int, after: int) -> IllegalTransition:
    return IllegalTransition(f"job {job} cannot go from {Phase(before).word} to {Phase(after).word}")
