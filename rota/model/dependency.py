"""Dependencies: a job that starts only after other jobs have ended."""

from enum import StrEnum

from rota.model.value import plain_value


class When(StrEnum):
    """How the other job must have ended."""

    OK = "ok"
    """The job has finished."""
    ENDED = "ended"
    """The job has finished, has failed or was cancelled."""
    FAILED = "failed"
    """The job has failed. A cancelled job has not."""

    def met(self, phase: str) -> bool:
        """Return whether a job that has ended in this phase has ended as it must: finished, failed or cancelled."""
        return self is When.ENDED or phase == {When.OK: "finished", When.FAILED: "failed"}[self]

    @property
    def text(self) -> str:
        """Text after the number of the job, such as `job 412 has finished`."""
        return {When.OK: "has finished", When.ENDED: "has ended", When.FAILED: "has failed"}[self]


@plain_value
class Dependency:
    """Another job, and how it must have ended."""

    job: int
    when: When = When.OK
