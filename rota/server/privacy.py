"""What users see of other users' jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rota.errors import ForbiddenError
from rota.wire.actor import Actor
from rota.wire.rows import JobRow, WhyRow


@dataclass(frozen=True, slots=True)
class Privacy:
    """The owner of a job and operators see all of it. Others see its size, phase and user, but not its spec, command and
    output."""

    hide_names: bool = False
    """Whether others do not see the job's name either."""

    def row(self, row: JobRow, by: Actor) -> JobRow:
        """Return the row as this actor may see it."""
        if by.is_operator or row.user == by.name:
            return row
        name = f"job-{row.id}" if self.hide_names else row.name
        return replace(
            row,
            name=name,
            command=None,
            metrics={},
            spec=None,
            trials=None,
            profile=None,
            last_change=None,
            problem=None,
            park_reason=None,
            limits_problem=None,
            key=None,
            steps_problem=None,
        )

    def rows(self, rows: Sequence[JobRow], by: Actor) -> list[JobRow]:
        return list(rows) if by.is_operator else [self.row(row, by) for row in rows]

    def why(self, row: WhyRow, by: Actor) -> WhyRow:
        """Return the row as this actor may see it."""
        job = self.row(row.job, by)
        last_change = row.last_change if job is row.job else None
        return replace(row, job=job, ahead=self.rows(row.ahead, by), last_change=last_change)

    def check_may_read(self, row: JobRow, by: Actor, what: str = "output") -> None:
        """Raise ForbiddenError unless this actor may read the job's output, or what is named."""
        if not by.is_operator and row.user != by.name:
            hint = f"ask {row.user} or an operator"
            raise ForbiddenError(f"The {what} of job {row.id} is for {row.user}; you are {by.name}.", hint=hint)
