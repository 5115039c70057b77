"""A home that starts with other GPUs than before. Real jobs, the daemon without its server."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.agent.gpus import Gpu
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, plain_setup
from rota.core.scheduler import Scheduler
from rota.core.validate import validate
from rota.live.cluster_changes import ClusterChanges, Devices, gpus_present, named_nodes, pretend_devices
from rota.live.daemon import Daemon
from rota.live.driver import Driver
from rota.live.driver_protocol import DriverContext
from rota.live.journal import Journal
from rota.live.local_channel import LocalChannel
from rota.live.replay import replay
from rota.model.cluster import Cluster, Node
from rota.model.commands import Launch
from rota.model.events import NodeDrainChanged, NodeJoined, NodeLeft
from rota.placers.packed import Packed
from tests.examples import examples
from tests.live.scheduler.test_daemon import PATIENCE, ended, running, submit
from tests.live.scheduler.test_driver import events_until_exit, submitted


def until_phase(daemon: Daemon, job: int, phase: str) -> None:
    end = time.monotonic() + PATIENCE
    while daemon.job(str(job)).phase != phase:
        assert time.monotonic() < end, daemon.job(str(job))
        time.sleep(0.02)


def until_settled(daemon: Daemon) -> None:
    end = time.monotonic() + PATIENCE
    while not daemon._settled:
        assert time.monotonic() < end
        time.sleep(0.02)


def check_record(home: Path) -> None:
    """The journal replays to the same decisions, through every change of the cluster."""
    journal = Journal(home / "journal.sqlite", JOURNAL_CODEC)
    for _, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
        validate(scheduler.state)
    journal.close()


def test_more_gpus_than_before_leave_running_jobs_alone(tmp_path: Path) -> None:
    with running(tmp_path, cluster="2xV100") as daemon:
        long = submit(daemon, ["sleep", "300"], gpus=2)
        until_phase(daemon, long, "running")
    with running(tmp_path, cluster="4xV100 + 1xK80") as daemon:
        until_settled(daemon)
        row = daemon.job(str(long))
        assert (row.phase, row.suspensions, row.placement) == ("running", 0, "n1:0-1")
        assert (daemon.status().gpus, daemon.status().cluster) == (5, "4xV100 + 1xK80")
        beside = submit(daemon, "env", gpus=2, accelerators=["V100"])
        old = submit(daemon, "true", accelerators=["K80"])
        assert ended(daemon, beside).phase == ended(daemon, old).phase == "finished", "the new GPUs are in use"
        assert "CUDA_VISIBLE_DEVICES=2,3" in daemon.logs(beside, 0, 1 << 20).text
        daemon.cancel(long)
        ended(daemon, long)
    with running(tmp_path, cluster="4xV100 + 1xK80") as daemon:
        until_settled(daemon)
        wide = submit(daemon, "true", gpus=4, accelerators=["V100"])
        assert ended(daemon, wide).phase == "finished"
        names = [node.name for node in daemon.scheduler.state.nodes.cluster.nodes]
        assert names == ["n1", "n1-2", "n2", "n1"], "with no job on it, a machine becomes one node again"
    check_record(tmp_path)


def test_a_home_in_which_nothing_has_happened_begins_with_the_cluster_of_its_next_start(tmp_path: Path) -> None:
    with running(tmp_path, cluster="2xV100") as daemon:
        assert daemon.begun.wait(PATIENCE) and daemon.journal.last == 0
    said: list[str] = []
    with running(tmp_path, cluster="1xK80 + 3xV100", tell=said.append) as daemon:
        assert ended(daemon, submit(daemon, "true", gpus=3)).phase == "finished"
        assert [node.name for node in daemon.scheduler.state.nodes.cluster.nodes] == ["n1", "n2"] and not said
    check_record(tmp_path)


def test_with_fewer_gpus_jobs_are_suspended_told_and_kept_until_they_come_back(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    saves = f"trap 'echo saved >> {mark}; exit 75' TERM; while true; do sleep 0.1; done"
    with running(tmp_path, cluster="4xV100", policy="fifo") as daemon:
        wide = submit(daemon, saves, gpus=3, name="wide")
        narrow = submit(daemon, ["sleep", "300"], gpus=1)
        for job in (wide, narrow):
            until_phase(daemon, job, "running")
    said: list[str] = []
    with running(tmp_path, cluster="2xV100", policy="fifo", tell=said.append) as daemon:
        until_settled(daemon)
        assert mark.read_text() == "saved\n", "it was asked to stop, and saved"
        until_phase(daemon, narrow, "running")
        row, why = daemon.job("wide"), daemon.why(wide)
        assert (row.phase, row.suspensions, row.reason) == ("checkpointed", 1, "UNSATISFIABLE")
        assert "since nodes left, the largest pool it accepts has 2" in why.reasons[0].sentence
        assert said[0] == "the cluster has changed: n1 (4xV100) left; n1 (2xV100) joined"
        assert len(said) == 2 and said[1].startswith(f"job {wide} cannot run now: "), said
        assert daemon.status().gpus == 2
        with pytest.raises(Exception, match="UNSATISFIABLE"):
            submit(daemon, "true", gpus=3)
    check_record(tmp_path)
    with running(tmp_path, cluster="4xV100", policy="fifo") as daemon:
        until_phase(daemon, wide, "running")
        until_phase(daemon, narrow, "running")
        assert daemon.job("wide").suspensions == 1 and daemon.job(str(narrow)).suspensions == 1, "n1 had grown beside it"
        for job in (wide, narrow):
            daemon.cancel(job)
            ended(daemon, job)
    check_record(tmp_path)


def test_a_daemon_that_died_amid_the_change_goes_on_with_it(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; while true; do sleep 0.1; done"
    with running(tmp_path, cluster="2x(2xV100)") as daemon:
        job = submit(daemon, stubborn, gpus=4, checkpoint={"grace": 3})
        until_phase(daemon, job, "running")
    with running(tmp_path, cluster="1x(2xV100)") as daemon:
        until_phase(daemon, job, "suspending")
        assert not daemon._settled
    with running(tmp_path, cluster="1x(2xV100)") as daemon:
        until_settled(daemon)
        assert daemon.job(str(job)).reason == "UNSATISFIABLE"
    with running(tmp_path, cluster="2x(2xV100)") as daemon:
        until_phase(daemon, job, "running")
        daemon.cancel(job)
        ended(daemon, job)
    check_record(tmp_path)


def test_the_change_is_taken_back_while_a_node_drains(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; while true; do sleep 0.1; done"
    with running(tmp_path, cluster="2xV100 + 2xK80") as daemon:
        job = submit(daemon, stubborn, accelerators=["K80"], gpus=2, checkpoint={"grace": 3})
        until_phase(daemon, job, "running")
    with running(tmp_path, cluster="2xV100") as daemon:
        until_phase(daemon, job, "suspending")
    with running(tmp_path, cluster="2xV100 + 2xK80") as daemon:
        until_settled(daemon)
        assert not daemon.scheduler.state.nodes.draining and not daemon.scheduler.state.nodes.gone
        until_phase(daemon, job, "running")
        daemon.cancel(job)
        ended(daemon, job)
    check_record(tmp_path)


def test_recovery_does_not_need_a_snapshot_of_the_first_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first snapshot the state is made of entries alone, which begin with the cluster that the home was made for."""
    for every, cluster in ((1000, "2xV100"), (1000, "3xK80"), (2, "1xV100"), (1000, "2xV100 + 3xK80")):
        monkeypatch.setattr("rota.live.upkeep.SNAPSHOT_EVERY", every)
        with running(tmp_path, cluster=cluster) as daemon:
            assert ended(daemon, submit(daemon, "true")).phase == "finished"
            assert gpus_present(daemon.scheduler.state) == Cluster.parse(cluster).gpus
    check_record(tmp_path)


def test_a_home_of_an_earlier_version_has_no_names_of_gpus(tmp_path: Path) -> None:
    with running(tmp_path, cluster="2xV100") as daemon:
        long = submit(daemon, ["sleep", "300"], gpus=2)
        until_phase(daemon, long, "running")
        plain = {name: value for name, value in plain_setup(daemon.setup).items() if name != "devices"}
        daemon.journal.configure(plain)
    with running(tmp_path, cluster="2xV100") as daemon:
        until_settled(daemon)
        assert daemon.job(str(long)).phase == "running" and daemon.setup.devices == (("V100:0", "V100:1"),)
        daemon.cancel(long)
        ended(daemon, long)


def test_a_job_gets_the_real_gpus_by_their_own_index(tmp_path: Path) -> None:
    """One of four has fallen off its bus: numbers of the scheduler are not those of the machine."""
    gpus = [Gpu(index, "H200", "NVIDIA H200", 140.0, f"GPU-{index}") for index in (0, 2, 3)]
    driver = Driver(tmp_path, LocalChannel(tmp_path, Cluster.of([Node("here", "H200", 3)]), [gpus]), lease_grace_seconds=1.0)
    assert driver.devices() == (("GPU-0", "GPU-2", "GPU-3"),)
    grown = Cluster.of([Node("here", "H200", 4), Node("here", "H200", 3)])
    names = ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-0", "GPU-2", "GPU-3"]
    driver.open(DriverContext(lambda: None, lambda job: submitted("env"), time.time, lambda: grown, names.__getitem__))
    try:
        driver.events()
        driver.carry_out([Launch(1, 1, 1, 0, np.array([5, 6]), (1,), (0,), 0.0, 1e12)])
        events_until_exit(driver)
        log = driver.read_log(1, 0, 10_000).data.decode()
        assert "CUDA_VISIBLE_DEVICES=2,3" in log and "started on here:1-2" in log
    finally:
        driver.close()


# The rules alone: whatever the clusters, in the end the scheduler has exactly the GPUs that are there.

nodes_ = st.lists(st.tuples(st.sampled_from(["V100", "K80"]), st.integers(1, 4)), min_size=1, max_size=3)


def _cluster(kinds: Sequence[tuple[str, int]]) -> Cluster:
    return Cluster.of(Node(f"n{i + 1}", kind, gpus) for i, (kind, gpus) in enumerate(kinds))


@examples(60)
@given(st.lists(nodes_, min_size=2, max_size=5))
def test_whatever_the_clusters_the_scheduler_ends_with_what_is_there(clusters: list[list[tuple[str, int]]]) -> None:
    first = _cluster(clusters[0])
    scheduler = Scheduler(first, Packed())
    devices: dict[int, Devices] = dict(enumerate(pretend_devices(first)))
    for kinds in clusters[1:]:
        cluster = _cluster(kinds)
        changes = ClusterChanges(scheduler.state, devices, named_nodes(cluster, pretend_devices(cluster)))
        told = changes.events(scheduler.state, 1.0)
        assert not any(isinstance(event, NodeDrainChanged) for event in told), "no job is there"
        scheduler.fold(1.0, told)
        devices, state = changes.devices, scheduler.state
        assert changes.done and not changes.events(state, 2.0)
        here = [node for node in range(len(state.nodes.cluster.nodes)) if node not in state.nodes.gone]
        found = [device for node in here for device in devices[node]]
        assert sorted(found) == sorted(device for names in pretend_devices(cluster) for device in names)
        assert all(len(devices[node]) == state.nodes.cluster.nodes[node].gpus for node in devices)
        assert len({state.nodes.cluster.nodes[node].name for node in here}) == len(here)
        again = ClusterChanges(state, devices, named_nodes(cluster, pretend_devices(cluster)))
        assert again.done and not again.text, "opened with the same cluster again, nothing changes"
        validate(state)
    assert {type(event) for event in told} <= {NodeLeft, NodeJoined}


def test_what_a_driver_of_silent_nodes_drains_stays_drained() -> None:
    """It says itself when a node is in use again, and when one has left."""
    cluster = Cluster.parse("2x(2xV100)")
    devices = pretend_devices(cluster)
    scheduler = Scheduler(cluster, Packed())
    scheduler.fold(1.0, [NodeDrainChanged(0, 1.0)])
    there = named_nodes(cluster, devices)
    assert ClusterChanges(scheduler.state, dict(enumerate(devices)), there).events(scheduler.state, 2.0)
    silent = ClusterChanges(scheduler.state, dict(enumerate(devices)), there[:1], nodes_can_leave=True)
    assert silent.events(scheduler.state, 2.0) == [] and silent.done
