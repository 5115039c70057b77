"""The options that `rota up` gets, and the signals that it handles."""

from pathlib import Path

import pytest

from rota.agent.gpus import Gpu
from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler, plain_setup
from rota.errors import ClusterError
from rota.live.journal import Journal
from rota.model.cluster import Node
from rota.server import serve
from rota.server.serve import ServeOptions, check_options, home_setup


def test_an_accelerator_type_that_is_typed_is_checked_and_one_that_a_machine_tells_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match="Closest: V100"):
        check_options(ServeOptions(home=tmp_path, pretend="2xV10O"))
    monkeypatch.setattr(serve, "find_gpus", lambda: [Gpu(0, "V10O", "NVIDIA V10O", 16.0, "GPU-1")])
    assert check_options(ServeOptions(home=tmp_path)).driver.discover_cluster().pools == ("V10O",)
    profile = tmp_path / "rates.csv"
    profile.write_text("profile,accelerator,gpus,steps_per_second\nnet,V10O,1,4\n")
    check_options(ServeOptions(home=tmp_path, pretend="2xV10O", given={"profile": str(profile)}))


def test_gpus_of_several_types_are_a_node_for_each_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = [Gpu(i, kind, kind, 16.0, f"GPU-{i}") for i, kind in enumerate(("V100", "H200", "V100"))]
    monkeypatch.setattr(serve, "find_gpus", lambda: found)
    monkeypatch.setattr(serve, "total_gib", lambda: 125.0)
    monkeypatch.setattr(serve.socket, "gethostname", lambda: "box.example")
    checked = check_options(ServeOptions(home=tmp_path))
    cluster = checked.driver.discover_cluster()
    assert cluster.nodes == (Node("box-v100", "V100", 2, host_gib=66.0), Node("box-h200", "H200", 1, host_gib=33.0))
    assert str(cluster) == "1x(2xV100) + 1x(1xH200)"
    assert checked.driver.devices() == (("GPU-0", "GPU-2"), ("GPU-1",))
    chosen = home_setup(ServeOptions(home=tmp_path), "fifo", "packed", checked, {})
    state = make_scheduler(chosen).state
    assert state.nodes.host_gib.tolist() == [66.0, 33.0] and state.beliefs.costs.memory.context_gib > 0


def test_pretend_gpus_take_no_memory_of_the_host(tmp_path: Path) -> None:
    options = ServeOptions(home=tmp_path, pretend="2xV100")
    chosen = home_setup(options, "fifo", "packed", check_options(options), {})
    assert chosen.cluster.nodes[0].host_gib is None and chosen.context_gib == chosen.given.costs.memory.context_gib == 0


def test_jobs_of_one_machine_keep_running_for_a_day_without_their_scheduler(tmp_path: Path) -> None:
    assert ServeOptions(home=tmp_path).lease == 86_400.0
    assert ServeOptions(home=tmp_path, ray="auto").lease == 300.0
    assert ServeOptions(home=tmp_path, lease_seconds=20.0).lease == 20.0


def test_a_home_without_real_gpus_keeps_the_pretend_ones_that_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_gpus", list)
    assert str(check_options(ServeOptions(home=tmp_path)).driver.discover_cluster()) == "4xV100"
    before = ServeOptions(home=tmp_path, pretend="1xV100 + 1xK80")
    checked = check_options(before)
    journal = Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)
    journal.configure(plain_setup(home_setup(before, "fifo", "packed", checked, {})))
    journal.close()
    assert str(check_options(ServeOptions(home=tmp_path)).driver.discover_cluster()) == "1xV100 + 1xK80"
    assert str(check_options(ServeOptions(home=tmp_path, pretend="2xV100")).driver.discover_cluster()) == "2xV100"
