"""Which jobs a request is about."""

from collections.abc import Sequence

from rota.live.ended_jobs import JobOutline
from rota.live.history import JobHistory
from rota.live.job_record import JobRecord
from rota.live.job_records import JobRecords
from rota.live.job_requests import JobRequests
from rota.wire.job_request import JobRequest, Verb
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from rota.wire.task_array import ArrayTask

TASKS = 20


class CountedRecords(JobRecords):
    """Counts the outlines that are read."""

    count = 0

    def outlines(self, jobs: Sequence[int]) -> list[JobOutline]:
        self.count += len(jobs)
        return super().outlines(jobs)


def test_an_array_that_a_request_names_many_times_is_looked_at_once() -> None:
    """Its tasks times the names of a request would be millions, for which all others would wait."""
    history, records = JobHistory(), CountedRecords()
    history.records = records
    for index in range(TASKS):
        spec = Spec.model_validate({"name": f"sweep[{index}]", "run": ["true"]})
        task = ArrayTask(name="sweep", text=f"0-{TASKS - 1}", index=index, first=0, last=TASKS - 1, count=TASKS, array=1)
        history.add(JobRecord(index + 2, Submission(spec, "ana", "/", {}, task=task), 0.0, phase="failed"))
    requests = JobRequests(history, dict, lambda: 0.0)
    names = ("sweep", "1", "01", f"sweep[0-{TASKS - 1}]")
    wanted = JobRequest(verb=Verb.REQUEUE, jobs=names * 100)
    assert [record.id for record in requests.ended(wanted, None)] == list(range(2, TASKS + 2))
    assert requests.arrays(wanted, None) == [1]
    assert records.count == TASKS
