"""Drains on a Ray cluster: a job moves to another node, and a removed node does not join until it may."""

import contextlib
from pathlib import Path

import pytest

pytest.importorskip("ray")

from tests.live.ray_cluster import RayCluster
from tests.live.test_ray import RaySite
from tests.waiting import until


@pytest.mark.slow
def test_a_node_is_drained_and_removed_and_joins_again(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        contextlib.closing(RayCluster(tmp_path_factory.mktemp("ray"))) as cluster,
        contextlib.closing(RaySite(tmp_path, cluster, lease_seconds=20.0)) as place,
    ):
        cluster.add("n1", 2, "V100")
        cluster.add("n2", 2, "V100")
        place.up()
        client = place.client()

        def there() -> dict[str, bool]:
            return {node.name: node.draining for node in client.nodes() if node.up}

        until(lambda: set(there()) == {"n1", "n2"}, "both nodes are there")
        job = place.start(2, 100_000, 0.1)
        until(lambda: place.lives(job), "the job runs")
        first = place.lives(job)[0][2]
        other = "n2" if first == "n1" else "n1"
        row = client.drain(first, reason="new disks")
        assert row.leaving == [job]
        until(lambda: place.lives(job)[-1][2] == other, "the job runs on the other node")
        until(lambda: client.reservations()[0].empty, "the node is empty")
        client.remove_node(first)
        assert set(there()) == {other}
        place.kill()
        place.up()
        client = place.client()
        until(lambda: other in there(), "the other node has answered")
        assert set(there()) == {other}, "a removed node does not join"
        client.undrain(first)
        until(lambda: there() == {other: False, first: False}, "the node has joined again")
        assert client.job(job).suspensions == 1 and client.job(job).lost_steps == 0
        client.cancel(job)
        until(lambda: not client.jobs(), "the job has ended")
        gpus = place.start(4, 3, 0.01)
        until(lambda: client.job(gpus).phase == "finished", "a gang on both nodes is done")
