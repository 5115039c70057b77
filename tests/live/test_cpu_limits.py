"""Limits of CPUs and memory of a real job: enforced, or noted in its row."""

from pathlib import Path

from rota.agent import cgroups
from tests.live.harness import site
from tests.waiting import until


def test_a_job_with_limits_knows_them_and_its_row_says_if_they_are_not_enforced(tmp_path: Path) -> None:
    problem = cgroups.problem()
    with site(tmp_path, pretend="2xV100", policy="fifo") as place:
        script = "echo limits $ROTA_CPUS $ROTA_MEMORY_GIB $ROTA_CPU_WEIGHT; cat /proc/self/cgroup; sleep 300"
        job = place.client().submit(run=script, gpus=2, cpus=1.5, memory="2 GiB")
        plain = place.client().submit(run="sleep 300", gpus=0.5)
        until(lambda: place.client().job(job.id).phase == "running", "the job runs")
        row = place.client().job(job.id)
        assert (row.spec or {})["cpus"] == 1.5 and (row.spec or {})["memory"] == "2 GiB"
        if problem:
            assert row.limits_problem == f"its CPUs and memory are not limited: {problem}"
        else:
            assert row.limits_problem is None
        assert "its spec limits its host memory" in (row.park_reason or "")
        until(lambda: "limits 1.5 2 200" in "".join(job.logs()), "the job has said its limits")
        assert bool(problem) or cgroups.PARENT in "".join(job.logs())
        assert place.client().job(plain.id).limits_problem is None, "nothing was asked for"
        place.client().cancel_many([job.id, plain.id])
        until(lambda: not place.client().jobs(), "both have ended")
