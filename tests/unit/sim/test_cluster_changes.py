"""`events:` of a cluster's YAML: nodes join, are drained and leave while jobs run."""

from pathlib import Path

import pytest

from rota.api import prepare, simulate
from rota.compose.cluster_yaml import read_cluster_yaml
from rota.errors import ClusterError, SimulationStalled
from rota.model.job import Arrival, JobSpec
from rota.traces.trace import Trace
from tests.fuzz.checks import Watched

TEXT = """
nodes:
  - {count: 2, accelerator: V100, gpus: 2, name: a}
events:
  - {at: 100s, join: {accelerator: A100, gpus: 4, name: b}}
  - {at: 150s, drain: a1}
  - {at: 300s, leave: a2, warning: 60s}
  - {at: 400s, undrain: a1}
"""
JOBS = Trace.of(
    "jobs",
    "test",
    [
        Arrival(10.0 * i, JobSpec(gpus=gpus, steps=200.0, can_park=i % 2 == 0))
        for i, gpus in enumerate((1, 2, 4, 1, 2, 1, 1, 0.5, 0.5, 3))
    ],
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    "policy", ["fifo", "las", "srsf", "max-min-fairness", "tiresias:thresholds=100", "max-min-fairness:colocation=true"]
)
@pytest.mark.parametrize("placer", ["packed", "pal", "packed:sticky=false"])
def test_nodes_are_used_while_they_are_there(policy: str, placer: str, site: Path) -> None:
    record = prepare(JOBS, policy=policy, cluster=site, placer=placer, preset="ideal").engine(core=Watched).run()
    holds = record.gpu_intervals
    assert record.ended == len(JOBS)
    for number in range(len(holds)):
        gpus = holds.gpus[holds.first[number] : holds.first[number + 1]]
        start_s, end_s = holds.start_s[number], holds.end_s[number]
        if end_s <= start_s:
            continue
        if (gpus >= 4).any():
            assert start_s >= 100.0, "b has not joined"
        if ((gpus >= 2) & (gpus < 4)).any():
            assert end_s <= 240.0, "a2 is drained a minute before it leaves"
        if (gpus < 2).any():
            assert end_s <= 150.0 or start_s >= 400.0, "a1 is drained"
    assert record.lost_gpu_seconds.sum() == 0, "with a warning, nothing is lost"


def test_without_a_warning_work_is_lost(site: Path, tmp_path: Path) -> None:
    path = tmp_path / "sudden.yaml"
    path.write_text(TEXT.replace(", warning: 60s", ""))
    sudden = simulate(JOBS, policy="fifo", cluster=path, preset="ideal")
    assert sudden.summary.lost_gpu_seconds > 0 and sudden.summary.finished == len(JOBS)


def test_a_job_that_no_longer_fits_is_told_why(site: Path) -> None:
    wide = Trace.of(
        "wide",
        "test",
        [Arrival(0.0, JobSpec(gpus=1, steps=10.0)), Arrival(500.0, JobSpec(gpus=3, accelerators=("V100",), steps=9.0))],
    )
    with pytest.raises(
        SimulationStalled, match=r"Job 1: It asks for 3 GPUs of V100; since nodes left, the largest pool it accepts has 2"
    ):
        simulate(wide, cluster=site, preset="ideal")


def test_nodes_that_join_come_last(site: Path) -> None:
    found = read_cluster_yaml(site)
    assert [node.name for node in found.cluster.nodes] == ["a1", "a2", "b"]
    assert [(change.at_s, change.what, change.node) for change in found.changes] == [
        (100.0, "join", 2),
        (150.0, "drain", 0),
        (240.0, "drain", 1),
        (300.0, "leave", 1),
        (400.0, "undrain", 0),
    ]


@pytest.mark.parametrize(
    ("line", "story"),
    [
        ("{at: 1h}", "needs one of join, drain, undrain, leave"),
        ("{at: 1h, drain: a1, leave: a1}", "needs one of"),
        ("{at: 1h, drain: c9}", "the cluster has no node of this name at that time"),
        ("{at: 1h, drain: a1, warning: 1m}", "goes with `leave`"),
        ("{at: 1h, join: {accelerator: A100, gpus: 4, name: a1}}", "a node is already called 'a1'"),
        ("{at: soon, drain: a1}", "is not a length of time"),
        ("{drain: a1}", "at"),
    ],
)
def test_what_cannot_be_read_is_refused(line: str, story: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"nodes:\n  - {{count: 2, accelerator: V100, gpus: 2, name: a}}\nevents:\n  - {line}\n")
    with pytest.raises(ClusterError, match=story):
        read_cluster_yaml(path)
