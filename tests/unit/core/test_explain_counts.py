"""Sentences of `rota why` about one job, one GPU, and several."""

from rota.core.explain import explain
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench


def said(bench: Bench, job: int) -> str:
    return " ".join(each.sentence for each in explain(bench.state, job))


def test_one_job_ahead_and_one_gpu() -> None:
    bench = Bench("1xV100", Fifo())
    bench.obey(bench.submit(gpus=1))
    bench.submit(gpus=1)
    assert said(bench, 1) == "It needs 1 GPU of any type; 0 are free. 1 job is ahead of it by submission: 0."
    bench.submit(gpus=1)
    assert "2 jobs are ahead of it" in said(bench, 2)


def test_one_gpu_of_a_type_that_is_not_there() -> None:
    bench = Bench("1xV100")
    bench.submit(gpus=1, accelerators=("A100",))
    assert said(bench, 0) == "It asks for 1 GPU of A100; the cluster has V100."


def test_one_job_and_several_that_give_up_their_gpus() -> None:
    for jobs, who in ((1, "job 0 is"), (2, "jobs 0, 1 are")):
        bench = Bench("2xV100", Srsf())
        for _ in range(jobs):
            bench.obey(bench.submit(gpus=2 // jobs, steps=10_000.0))
        bench.submit(at_s=60.0, gpus=2, steps=1.0)
        assert said(bench, jobs) == f"Its GPUs are granted; {who} giving them up."
