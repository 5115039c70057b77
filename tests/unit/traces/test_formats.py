"""The formats of others: how rows are read, what is skipped, what is noted, and that each is distinguished from the rest."""

import math
from itertools import pairwise
from pathlib import Path

import pytest

from rota.errors import TraceError
from rota.model.job import Arrival, JobSpec
from rota.traces.pollux import STEPS, steps_to_end
from rota.traces.read_trace import FORMATS, read_trace
from rota.traces.trace import SkippedRow
from rota.traces.write_trace import write_trace
from tests.unit.traces.test_read_trace import PHILLY, write

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n7,8,30,133,vgg11,147,23\n3,1,0,606,,164,30\n"
GAVEL_10 = (
    'ResNet-18 (batch size 16)\tpython3 main.py --name "a, b\tdir\t--num_steps\t1\t2931\t2\t5\t-1.000000\t7.5\n'
    "A3C\tpython3 main.py\trl\t--max-steps\t0\t100\t1\t1\t1.200000\t0\n"
)
GAVEL_7 = "LM (batch size 5)\tcd %s && python3 main.py\t--steps\t1\t95121\t6.000000\t4\n"
GAVEL_12 = (
    "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t134583\t1\tgns\t1\t-1.000000\t1418\t0\n"
    "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t10\t1\taccordion\t1\t-1.000000\t1\t55\n"
    "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t10\t8\tstatic\t1\t-1.000000\t1\t55\n"
)
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,ua,vcE,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:01,2020-04-01 00:00:02,1,1
2,ua,vcE,8,32,1,COMPLETED,2020-04-02 00:01:00,2020-04-02 00:02:00,2020-04-02 01:02:00,3600,60
3,ub,vcB,16,64,2,CANCELLED,2020-04-02 00:00:30,2020-04-02 00:02:00,2020-04-02 00:02:00,0,90
4,ub,vcB,1,4,1,RUNNING,2020-04-02 00:00:40,2020-04-02 00:02:00,,5,80
"""
PAL = "job_id,num_gpus,submit_time,duration,model,batch_size\n1,12,115,4037.0,DCGAN,256\n0,1,98,1481,vgg19,32\n"
POLLUX = "name,time,application,num_replicas,batch_size\ncifar10-1,107,cifar10,6,2048\nbert-0,29,bert,1,384\n"
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,100,40
p1,6000,12288,1,460,V100M16|V100M32|V100M32,LS,Failed,5,25,5
p2,6000,12288,8,500,T4,BE,Succeeded,2,12,
p3,6000,12288,0,0,,LS,Running,3,13,3
p4,6000,12288,0,0,,LS,Running,3,13,3
p5,6000,12288,1,100,,LS,Pending,3,13,
p6,6000,12288,1,100,,LS,Running,3,,3
p7,6000,12288,1,100,,LS,Running,3,13,13
p8,6000,12288,1,100,,LS,Running,3,13,14
"""
KALOS = """job_id,arrival_time,num_iteration,iteration_computing_time,gpu_workers,ps,gpu_per_worker,tensorsizes,profiled_network
0,0.0,209,0.5,128,0,8.0,10.0,500
1,313.0,156,0.5,1,0,0.0,10.0,500
"""
SACCT = """JobID|JobName|User|Account|State|Submit|ElapsedRaw|ReqTRES|AllocTRES
412|train, "big"|ana|vision|COMPLETED|2026-01-05T09:00:00|3600|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4|cpu=8,gres/gpu=4,mem=64G
412.batch|batch|||COMPLETED|2026-01-05T09:00:00|3600||cpu=8,gres/gpu=4
413_7||leo|speech|FAILED|2026-01-05T08:59:00|60|cpu=1,gres/gpu=1|cpu=1,gres/gpu=1
414|x|leo|speech|CANCELLED by 1000|2026-01-05T09:00:00|0|gres/gpu=1|
415|x|leo|speech|RUNNING|2026-01-05T09:00:00|9|gres/gpu=1|gres/gpu=1
416|x|leo|speech|TIMEOUT|2026-01-05T09:00:00|9|cpu=4|cpu=4
"""
KUEUE = """{
  "apiVersion": "v1", "items": [
    {"kind": "Workload", "metadata": {"name": "job-a", "namespace": "vision", "labels": {"user": "ana"},
                                      "creationTimestamp": "2026-01-05T09:00:00Z"},
     "spec": {"queueName": "main", "podSets": [{"count": 2, "template": {"spec": {"containers": [
        {"resources": {"requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": 4, "cpu": "8"}}}, {}]}}}]},
     "status": {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-05T09:10:00Z"},
                               {"type": "Finished", "status": "True", "lastTransitionTime": "2026-01-05T10:10:00Z"}]}},
    {"metadata": {"name": "job-b", "namespace": "vision", "creationTimestamp": "2026-01-05T08:00:00Z"},
     "spec": {"podSets": [{"template": {"spec": {"containers": [{"resources": {"limits": {"amd.com/gpu": "1"}}}]}}}]},
     "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-05T08:00:00Z"},
                               {"type": "Finished", "status": "True", "lastTransitionTime": "2026-01-05T08:00:30Z"}]}},
    {"metadata": {"name": "job-c"}, "spec": {}}
  ],
  "kind": "List"
}
"""
SAMPLES = {
    "rota": "submit_time,gpus,duration\n0,1,5\n",
    "philly": PHILLY,
    "helios": HELIOS,
    "tiresias": TIRESIAS,
    "pal": PAL,
    "pollux": POLLUX,
    "openb": OPENB,
    "kalos": KALOS,
    "gavel": GAVEL_10,
    "sacct": SACCT,
    "kueue": KUEUE,
}


def test_every_format_has_a_sample() -> None:
    assert SAMPLES.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_each_is_told_from_the_rest(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "\n" + SAMPLES[name])
    trace = read_trace(path)
    assert trace.format == name
    assert trace.arrivals == read_trace(path, format=name).arrivals


def test_philly(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, PHILLY))
    assert (trace.name, trace.format, trace.skipped) == ("trace.csv", "philly", ())
    assert trace.arrivals == (
        Arrival(0.0, JobSpec(name="philly-3", gpus=4, steps=2951.0, tenant="6214e9")),
        Arrival(0.0, JobSpec(name="philly-4", gpus=2, steps=0.0, tenant="11cb48")),
        Arrival(2932.0, JobSpec(name="philly-2", gpus=1, steps=66.0, tenant="11cb48")),
    )
    assert trace.lines == (3, 4, 2)


def test_philly_counts_from_the_first_job_that_was_asked_for(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, PHILLY), where=[("num_gpus", "1")])
    assert [(arrival.submitted_s, arrival.spec.name) for arrival in trace.arrivals] == [(0.0, "philly-2")]


def test_philly_needs_neither_cluster_nor_gpu_time(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, "num_gpus,timestamp,duration\n1,2017-10-09 07:01:55,66\n"))
    assert trace.arrivals == (Arrival(0.0, JobSpec(name="philly-2", gpus=1, steps=66.0)),)


def test_tiresias_keeps_its_numbers(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, TIRESIAS.replace("3,1,0,", "3,1,5,")))
    assert trace.format == "tiresias"
    assert trace.arrivals == (
        Arrival(5.0, JobSpec(name="job-3", gpus=1, steps=164.0)),
        Arrival(30.0, JobSpec(name="vgg11-7", gpus=8, steps=147.0)),
    )


def test_tiresias_needs_only_four_columns(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, "duration,submit_time,num_gpu,job_id\n10,0,2,a\n"))
    assert trace.arrivals == (Arrival(0.0, JobSpec(name="job-a", gpus=2, steps=10.0)),)


def test_gavel(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, GAVEL_10))
    assert trace.arrivals == (
        Arrival(0.0, JobSpec(name="gavel-2", gpus=1, steps=100.0, profile="A3C", slo=1.2)),
        Arrival(7.5, JobSpec(name="gavel-1", gpus=2, steps=2931.0, profile="ResNet-18 (batch size 16)", weight=5.0)),
    )
    assert trace.notes == ()


def test_gavel_of_old(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, GAVEL_7))
    assert trace.arrivals == (Arrival(6.0, JobSpec(name="gavel-1", gpus=4, steps=95121.0, profile="LM (batch size 5)")),)
    assert trace.notes == ()


def test_gavel_of_shockwave(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, GAVEL_12))
    assert [(arrival.submitted_s, arrival.spec.gpus, arrival.spec.steps) for arrival in trace.arrivals] == [
        (0.0, 1, 134583.0),
        (55.0, 1, 10.0),
        (55.0, 8, 10.0),
    ]
    assert trace.notes == ("2 jobs had a batch size that changes in training; here it stays at its first value",)
    static = read_trace(write(tmp_path, GAVEL_12), where=[("mode", "static")])
    assert (static.lines, static.notes) == ((3,), ())


def test_gavel_can_be_converted(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, GAVEL_10))
    write_trace(trace, tmp_path / "ours.csv")
    ours = read_trace(tmp_path / "ours.csv")
    assert ours.format == "rota"
    assert ours.arrivals == trace.arrivals
    assert "main.py" not in (tmp_path / "ours.csv").read_text(), "commands are not kept"


def test_helios(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, HELIOS))
    assert trace.arrivals == (
        Arrival(0.0, JobSpec(name="helios-3", gpus=16, steps=0.0, tenant="vcB", user="ub")),
        Arrival(30.0, JobSpec(name="helios-2", gpus=8, steps=3600.0, tenant="vcE", user="ua")),
    )
    assert trace.skipped == (SkippedRow(2, "requests no GPU"), SkippedRow(5, "had not ended"))


def test_pal(tmp_path: Path) -> None:
    assert read_trace(write(tmp_path, PAL)).arrivals == (
        Arrival(98.0, JobSpec(name="vgg19-0", gpus=1, steps=1481.0, profile="pal/vgg19")),
        Arrival(115.0, JobSpec(name="dcgan-1", gpus=12, steps=4037.0, profile="pal/dcgan")),
    )


def test_pollux(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, POLLUX))
    assert trace.arrivals == (
        Arrival(29.0, JobSpec(name="bert-0", gpus=1, steps=480.0, profile="bert/global384")),
        Arrival(107.0, JobSpec(name="cifar10-1", gpus=6, steps=3178.0, profile="cifar10/global2048")),
    )
    assert trace.notes == ()


def test_pollux_notes_batch_sizes_without_a_curve(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, POLLUX + "x,200,bert,1,100\n"))
    assert trace.arrivals[-1].spec.profile == "bert/global100"
    assert trace.notes == ("1 job had a batch size that Pollux has no curve for; the steps are estimated from the nearest",)


@pytest.mark.parametrize("application", STEPS)
def test_pollux_steps_at_any_batch_size(application: str) -> None:
    curve = STEPS[application]
    assert all(steps_to_end(application, size) == steps for size, steps in curve.items())
    for small, large in pairwise(sorted(curve)):
        middle = round(math.sqrt(small * large))
        share = math.log(middle / small, large / small)
        between = curve[small] ** (1 - share) * curve[large] ** share
        assert curve[large] < between < curve[small]
        assert steps_to_end(application, middle) == pytest.approx(between, abs=0.5001)
    least, most = min(curve), max(curve)
    assert steps_to_end(application, 1) == curve[least] * least, "as many examples"
    assert steps_to_end(application, 100 * most) == curve[most], "no use in more"


def test_openb(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, OPENB))
    assert trace.arrivals == (
        Arrival(0.0, JobSpec(name="p0", gpus=1, steps=60.0)),
        Arrival(2.0, JobSpec(name="p2", gpus=8, steps=10.0, accelerators=("T4",))),
        Arrival(5.0, JobSpec(name="p1", gpus=0.46, steps=20.0, accelerators=("V100M16", "V100M32"))),
    )
    assert trace.skipped == (
        SkippedRow(5, "requests no GPU"),
        SkippedRow(6, "requests no GPU"),
        SkippedRow(7, "was never scheduled"),
        SkippedRow(8, "was never deleted"),
        SkippedRow(9, "ran for no time"),
        SkippedRow(10, "was deleted before it was scheduled"),
    )
    assert trace.notes == ("1 job requested fractions of several GPUs and got whole ones",), "skipped rows do not count"


def test_skips_and_notes_stay_with_a_part_of_a_trace(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, OPENB))
    part = trace.without_oversized(lambda spec: spec.gpus < 8).first(1)
    assert part.notes == trace.notes
    assert len(part.skipped) == len(trace.skipped) + 1


def test_kalos(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, KALOS))
    assert trace.arrivals == (Arrival(0.0, JobSpec(name="kalos-0", gpus=1024, steps=104.5)),)
    assert trace.skipped == (SkippedRow(3, "requests no GPU"),)


def test_sacct(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, SACCT))
    assert trace.arrivals == (
        Arrival(0.0, JobSpec(name="slurm-413_7", gpus=1, steps=60.0, tenant="speech", user="leo")),
        Arrival(60.0, JobSpec(name='train, "big"', gpus=4, steps=3600.0, accelerators=("A100",), tenant="vision", user="ana")),
    )
    assert [each.why for each in trace.skipped] == ["is a step of a job", "ran for no time", "had not ended", "requests no GPU"]
    write_trace(trace, tmp_path / "ours.csv")
    assert read_trace(tmp_path / "ours.csv").arrivals == trace.arrivals


def test_sacct_with_elapsed_as_people_read_it(tmp_path: Path) -> None:
    text = (
        "JobID|Submit|Elapsed|AllocTRES\n1|1767603600|1-02:03:04|gres/gpu=2\n2|1767603601|05:06|gres/gpu:a100=1,gres/gpu:v100=2\n"
    )
    found = [(each.submitted_s, each.spec.gpus, each.spec.steps) for each in read_trace(write(tmp_path, text)).arrivals]
    assert found == [(0.0, 2, 93784.0), (1.0, 3, 306.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JobID|Submit|ElapsedRaw\n1|2026-01-05T09:00:00|5\n", r":1  alloctres — the sacct format needs this column or reqtres"),
        ("JobID|ElapsedRaw|AllocTRES\n1|5|gres/gpu=1\n", r":1  submit — the sacct format needs this column"),
        (
            "JobID|Submit|ElapsedRaw|AllocTRES\n1|yesterday|5|gres/gpu=1\n",
            r":2  submit: 'yesterday' — is not YYYY-MM-DDTHH:MM:SS",
        ),
        ("JobID|Submit|Elapsed|AllocTRES\n1|5|soon|gres/gpu=1\n", r":2  elapsed: 'soon' — is not \[DAYS-\]HH:MM:SS"),
        ("JobID|Submit|Elapsed|AllocTRES\n1|5|1:00|gres/gpu=many\n", r":2  alloctres: .* — has no number of GPUs"),
        ("JobID|Submit|Elapsed|AllocTRES\n1|5|1:00|a|b\n", r":2  cells: 5 — the header has 4 columns"),
    ],
)
def test_a_fault_of_sacct_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(write(tmp_path, text))


def test_kueue(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, KUEUE))
    assert trace.arrivals == (
        Arrival(0.0, JobSpec(name="job-b", gpus=1, steps=30.0, tenant="vision")),
        Arrival(3600.0, JobSpec(name="job-a", gpus=8, steps=3600.0, tenant="vision", user="ana")),
    )
    assert trace.lines == (9, 3) and [(each.line, each.why) for each in trace.skipped] == [(13, "requests no GPU")]
    listed = "[" + KUEUE.split("[", 1)[1].rsplit("]", 1)[0] + "]"
    assert read_trace(write(tmp_path, listed)).arrivals == trace.arrivals, "a list alone will do"
    assert len(read_trace(write(tmp_path, KUEUE), where=[("user", "ana")])) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"count": 2', '"count": -2', r":3  podSets.count: '-2' — is not a number"),
        ('"nvidia.com/gpu": "4"', '"nvidia.com/gpu": "four"', r":3  resources.requests.nvidia.com/gpu: 'four'"),
        ('"2026-01-05T08:00:30Z"', '"late"', r":9  finished: 'late' — is not a time of Kubernetes"),
        ('"creationTimestamp": "2026-01-05T08:00:00Z"', '"x": 1', r":9  created: '' — is not a time"),
        ('"kind": "Workload"', '"kind": "Job"', r":3  kind: 'Job' — is not a Workload"),
        ('"spec": {}', '"spex": {}', r":13  spec — a workload needs this"),
        ('"items"', '"things"', r":1  items — has no list of workloads"),
        ("{}]}}}]},", "{}]}}}]},,", r":6 — is not JSON"),
    ],
)
def test_a_fault_of_kueue_is_one_clear_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in KUEUE
    with pytest.raises(TraceError, match=message):
        read_trace(write(tmp_path, KUEUE.replace(old, new, 1)))
