"""A standby on another machine takes over the jobs of a Ray cluster: none is launched again, and no lease expires early."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.live.journal import Journal
from rota.live.journal_place import find_journal, open_journal
from rota.model.commands import Launch
from tests.live import other_machine
from tests.live.harness import until
from tests.live.ray_cluster import RayCluster
from tests.live.test_ray import RaySite, phases
from tests.live.test_standby import Standby
from tests.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with contextlib.closing(RayCluster(tmp_path_factory.mktemp("ray"))) as made:
        made.add("n1", 2, "V100")
        made.add("n2", 2, "V100")
        yield made


class LedRaySite(RaySite):
    """Its journal is in PostgreSQL."""

    def __init__(self, folder: Path, cluster: RayCluster, server: PostgresServer) -> None:
        super().__init__(folder, cluster)
        self.flags["--journal"] = server.url

    def journal(self) -> Journal:
        return open_journal(find_journal(self.home), JOURNAL_CODEC)


def test_another_machine_takes_over(tmp_path: Path, cluster: RayCluster, server: PostgresServer) -> None:
    """Its wall clock is a day ahead, so by that clock all leases would be over."""
    with contextlib.closing(LedRaySite(tmp_path, cluster, server)) as place, contextlib.ExitStack() as stack:
        place.up()
        jobs = [place.start(3, 100, 0.25), place.start(1, 100, 0.25)]
        until(lambda: [len(place.lives(job)) for job in jobs] == [2, 1], "both run, one of them on both nodes")
        jobs.append(place.start(2, 5, 0.05))
        place.python = [sys.executable, str(Path(other_machine.__file__))]
        place.env |= {"OTHER_BOOT_SECONDS": "5000000", "OTHER_WALL_SECONDS": "86400"}
        standby = Standby(place, 1)
        stack.callback(standby.process.wait)
        stack.callback(standby.process.kill)
        standby.until("standby: process ")
        place.kill()
        standby.until("ready ")
        assert phases(place)[jobs[0]] == phases(place)[jobs[1]] == "running"
        until(lambda: set(phases(place).values()) == {"finished"}, "all are done")
        assert [{life for life, _, _, _ in place.lives(job)} for job in jobs] == [{1}] * 3, "none was started again"
        assert [len(place.lives(job)) for job in jobs[:2]] == [2, 1]
        assert {row.lost_steps for row in place.rows().values()} == {0}
        assert not (place.work / "violations").exists()
        with contextlib.closing(place.journal()) as journal:
            decided = [entry.decided for entry in journal.entries() if entry.decided is not None]
        launches = {(each.job, each.attempt) for one in decided for each in one.commands if isinstance(each, Launch)}
        assert launches == {(job, 1) for job in jobs}
        epochs = {int(path.read_text()) for path in place.nodes.glob("*/epoch")}
        assert epochs == {2}, "agents know the one that leads"
