"""Clusters from text and from YAML."""

from pathlib import Path

import pytest

import rota
from rota.compose.cluster_yaml import open_cluster, read_cluster_yaml
from rota.errors import ClusterError

GOOD = """\
nodes:
  - count: 4
    accelerator: a100
    gpus: 8
    name: big
    racks: 2
    host_memory: 512 GiB
    mtbf: 30d
    repair: 2h
  - {accelerator: V100, gpus: 4, rack: r9}
links: {inter_node: 12.5, intra_node: {A100: 300}}
prices: {A100: 2.9, v100: 0}
failures: {mtbf: 60d}
"""


def site(folder: Path, text: str) -> object:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return read_cluster_yaml(path)


def test_everything_a_file_can_say(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(GOOD)
    found = open_cluster(str(path))
    cluster = found.cluster
    assert [node.name for node in cluster.nodes] == ["big1", "big2", "big3", "big4", "n5"]
    assert [node.rack for node in cluster.nodes] == ["big-rack1", "big-rack2", "big-rack1", "big-rack2", "r9"]
    assert cluster.pools == ("A100", "V100") and cluster.gpus == 36
    assert cluster.nodes[0].host_gib == 512.0
    assert cluster.inter_node_gb_s == 12.5 and cluster.intra_node_gb_s == {"A100": 300.0}
    assert cluster.dollars_per_hour == {"A100": 2.9, "V100": 0.0}
    assert found.physics["node_mtbf_seconds"].tolist() == [30 * 86400.0] * 4 + [60 * 86400.0]
    assert found.physics["node_repair_seconds"].tolist() == [7200.0] * 4 + [3600.0]


def test_racks_in_rows_links_and_penalties_by_level(tmp_path: Path) -> None:
    found = site(
        tmp_path,
        "nodes: [{count: 6, accelerator: V100, gpus: 4, name: a, racks: [2, 3]}, {accelerator: V100, gpus: 4, rack: x/y}]\n"
        "links: {between: [12.5, 6, 3]}\npenalties: {all: [1.1, 1.2], vgg19: 1.7}\n",
    )
    cluster = found.cluster  # type: ignore[attr-defined]
    assert [node.rack for node in cluster.nodes] == [
        *("a-row1/rack1", "a-row1/rack2", "a-row2/rack1", "a-row2/rack2", "a-row3/rack1", "a-row3/rack2"),
        "x/y",
    ]
    assert cluster.inter_node_gb_s == 12.5 and cluster.inter_rack_gb_s == (6.0, 3.0)
    penalty = found.physics["spread_penalty"]  # type: ignore[attr-defined]
    assert [penalty.slowdown(name, 2) for name in ("bert", "vgg19")] == pytest.approx([1.32, 1.7])
    plain = site(tmp_path, "nodes: [{accelerator: V100, gpus: 4}]\npenalties: [1.5]\n")
    assert plain.physics["spread_penalty"].slowdown("", 1) == 1.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes: [{count: 3, accelerator: V100, gpus: 4, racks: [2, 2]}]", "more racks than the 3 nodes"),
        ("nodes: [{accelerator: V100, gpus: 4}]\npenalties: {all: 0.5}", "must be at least 1"),
        ("nodes: [{accelerator: V100, gpus: 4}]\nlinks: {between: [1, 0]}", "must be more than 0"),
    ],
)
def test_levels_that_mean_nothing(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        site(tmp_path, text)


def test_without_failures_nothing_fails(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("nodes: {accelerator: V100, gpus: 2}".replace("nodes: {", "nodes: [{") + "]")
    assert open_cluster(str(path)).physics == {}


def test_text_and_objects_pass() -> None:
    assert open_cluster("2x(4xV100)").cluster.gpus == 8
    cluster = rota.Cluster.parse("3xK80")
    assert open_cluster(cluster).cluster is cluster


@pytest.mark.parametrize(
    "old,new,line,words",
    [
        ("nodes:\n", "node:\n", 1, "unknown field 'node'. Closest: nodes"),
        ("    gpus: 8\n", "", 2, "needs 'gpus'"),
        ("    gpus: 8\n", "    gpus: 0\n", 4, "at least 1"),
        ("    gpus: 8\n", "    gpus: eight\n", 4, "not a number"),
        ("    gpus: 8\n", "    gpus: 2.5\n", 4, "whole number"),
        ("    gpus: 8\n", "    gpus: 900000\n", 4, "more than 1,000,000 GPUs"),
        ("    count: 4\n", "    count: -1\n", 2, "at least 1"),
        ("  - count: 4\n", "  - count: true\n", 2, "not a number"),
        ("    mtbf: 30d\n", "    mtbf: often\n", 8, "not a length of time"),
        ("    mtbf: 30d\n", "    mtbf: 0\n", 8, "more than 0"),
        ("    racks: 2\n", "    racks: 5\n", 6, "more than 4"),
        ("    racks: 2\n", "    racks: 2\n    rack: r1\n", 6, "cannot be combined with"),
        ("    host_memory: 512 GiB\n", "    host_memory: lots\n", 7, "not a memory size"),
        ("inter_node: 12.5", "inter_node: 0", 11, "more than 0"),
        ("intra_node: {A100: 300}", "intra_node: 300", 11, "not a mapping"),
        ("prices: {A100: 2.9", "prices: {H100: 2.9", 12, "no node has H100"),
        ("prices: {A100: 2.9", "prices: {A100: -2.9", 12, "at least 0"),
        ("prices: {A100: 2.9", "prices: {A100: cheap", 12, "not a number"),
        ("failures: {mtbf: 60d}", "failures: {every: 60d}", 13, "unknown field 'every'"),
        ("gpus: 4, rack: r9", "gpus: 4, name: big1", 10, "already called 'big1'"),
        ("accelerator: V100", "accelerator: [V100, A100]", 10, "not text"),
        ("nodes:\n", "- nodes:\n", 1, "not YAML|not a mapping"),
    ],
)
def test_mistakes_say_where(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD or old == "    count: 4\n"
    text = GOOD.replace("  - count: 4\n", "  - " + new.strip() + "\n") if old == "    count: 4\n" else GOOD.replace(old, new, 1)
    with pytest.raises(ClusterError, match=words) as caught:
        site(tmp_path, text)
    assert caught.value.line == line or words.startswith("not YAML")
    assert "cluster.yaml" in caught.value.message and "\n" not in caught.value.message and caught.value.hint


def test_a_missing_file_says_so() -> None:
    with pytest.raises(ClusterError, match="no such file"):
        open_cluster("nowhere.yaml")


def test_a_simulation_on_a_file_loses_nodes(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("nodes:\n  - {count: 6, accelerator: V100, gpus: 4}\nfailures: {mtbf: 4h, repair: 10m}\n")
    found = rota.simulate("demo", policy="fifo:backfill=true", cluster=str(path))
    assert found.summary.lost_gpu_seconds > 0
    assert found.params["cluster"] == str(path)
