"""Jobs of other Unix users on a Ray cluster that root runs: each runs as its user, and reads nothing of others."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.errors import ForbiddenError
from tests.live.agent.users import ANA, LEO, PATH, clean_after_users
from tests.live.all_users import Shared
from tests.live.harness import until
from tests.live.ray_cluster import SETTINGS, RayCluster, end_supervisors
from tests.stranger import root_only
from tests.waiting import alive

pytestmark = [root_only, pytest.mark.nightly]


class SharedRaySite(Shared):
    """A scheduler that serves all users, and runs their jobs on a Ray cluster."""

    def __init__(self, folder: Path, cluster: RayCluster) -> None:
        super().__init__(folder)
        self.nodes = folder / "own" / "nodes"
        del self.flags["--pretend"]
        self.env |= SETTINGS
        self.flags |= {"--ray": cluster.address, "--node-dir": str(self.nodes)}

    def close(self) -> None:
        super().close()
        end_supervisors(self.nodes)
        clean_after_users(self.nodes)


@pytest.fixture
def place(public: Path, tmp_path: Path) -> Iterator[SharedRaySite]:
    with contextlib.closing(RayCluster(tmp_path)) as cluster:
        cluster.add("n1", 2, "V100")
        cluster.add("n2", 2, "V100")
        with contextlib.closing(SharedRaySite(public, cluster)) as made:
            made.up()
            yield made


def test_jobs_of_other_users_run_as_them_and_read_nothing_of_others(place: SharedRaySite) -> None:
    _a_gang_runs_as_its_user(place)
    secret = place.folders[LEO.pw_uid] / "secret"
    his = place.submit_as(LEO.pw_uid, f"echo $$; echo of leo > {secret}; exec sleep 600", env={"PATH": PATH, "SECRET": "of leo"})
    victim = place.pid_of(his)
    until(secret.exists, "leo's job has written")
    assert (secret.stat().st_uid, secret.stat().st_gid) == (LEO.pw_uid, LEO.pw_gid)

    closed = [place.home / "token", place.home / "journal.sqlite", place.home / "logs" / f"{his}.log", place.nodes, secret]
    closed += [Path(f"/proc/{victim}/environ"), *place.nodes.rglob("launch.json")]
    spies = place.submit_as(ANA.pw_uid, "env; head -c 100 " + " ".join(map(str, closed)))
    assert place.ended(spies) == "failed"
    said = place.output(spies)
    assert said.count("Permission denied") == len(closed) and "of leo" not in said, said
    assert "RAY_" not in said and f"USER={ANA.pw_name}\n" in said, said

    place.kill()
    place.up()
    with pytest.raises(ForbiddenError, match="belongs to"):
        place.as_user(ANA.pw_uid, lambda client: client.cancel(his).id)
    assert alive(victim) and Path(f"/proc/{victim}").stat().st_uid == LEO.pw_uid
    place.as_user(LEO.pw_uid, lambda client: client.cancel(his).id)
    assert place.ended(his) == "cancelled"
    until(lambda: not alive(victim), "its process has ended")


def _a_gang_runs_as_its_user(place: SharedRaySite) -> None:
    """With the number and the groups of the user, on each of its nodes."""
    gang = place.submit_as(ANA.pw_uid, 'echo "$(id -u) $ROTA_NODE $(id -G)" > "$NODE_RANK"', gpus=4)
    assert place.ended(gang) == "finished", place.output(gang)
    groups, nodes = {ANA.pw_gid, *os.getgrouplist(ANA.pw_name, ANA.pw_gid)}, []
    for rank in ("0", "1"):
        path = place.folders[ANA.pw_uid] / rank
        uid, node, *found = path.read_text().split()
        assert int(uid) == path.stat().st_uid == ANA.pw_uid and {*map(int, found)} == groups
        nodes.append(node)
    assert sorted(nodes) == ["n1", "n2"]
